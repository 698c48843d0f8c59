-- haproxy.lua - asks a gate of weir, and leaves what it said in txn.weir_*.
--
-- The client's address is the one that HAProxy sees: what the client says of itself is not sent.
-- If weir cannot be asked, txn.weir_status is not 429, and haproxy.cfg lets the request in.
local function ask_weir(txn, gate)
    local answer = core.httpclient():get {
        url = gate,
        headers = { ["x-forwarded-for"] = { txn.f:src() } },
        timeout = 200,
    }
    txn:set_var("txn.weir_status", tostring(answer.status))
    txn:set_var("txn.weir_body", answer.body or "")
    if answer.headers and answer.headers["retry-after"] then
        txn:set_var("txn.weir_retry_after", answer.headers["retry-after"][0])
    end
end

core.register_action("ask_weir", { "http-req" }, ask_weir, 1)
