-- haproxy.lua - asks a gate of weir, and leaves what it said in txn.weir_*.
--
-- The client's address is the one that HAProxy sees: what the client says of itself is not sent.
-- If weir cannot be asked, txn.weir_status is not set, and haproxy.cfg lets the request in.
--
-- WHY NOT core.httpclient(): that of HAProxy 2.6 tries for three seconds if weir is away.
local function ask_weir(txn, host, port, gate)
    local socket = core.tcp()
    socket:settimeout(0.2)
    if not socket:connect(host, tonumber(port)) then
        return
    end
    socket:send("GET " .. gate .. " HTTP/1.0\r\nX-Forwarded-For: " .. txn.f:src() .. "\r\n\r\n")
    local answer = socket:receive("*a")
    socket:close()
    if not answer then
        return
    end
    local head, body = answer:match("^(.-\r\n)\r\n(.*)$")
    if head then
        txn:set_var("txn.weir_status", head:match("^HTTP/1%.1 (%d+)"))
        txn:set_var("txn.weir_retry_after", head:match("\nRetry%-After: (%d+)") or "")
        txn:set_var("txn.weir_body", body)
    end
end

core.register_action("ask_weir", { "http-req" }, ask_weir, 3)
