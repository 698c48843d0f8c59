-- haproxy.lua - calls weir's gate, and answers the client if the check is denied.
--
-- WHY NOT core.httpclient(): in HAProxy 2.6 it retries for three seconds if weir is down.

-- The head and the body of the answer, or nothing if weir is down.
local function ask(host, port, target)
    local socket = core.tcp()
    socket:settimeout(0.2)
    if not socket:connect(host, tonumber(port)) then
        return
    end
    -- .. "Authorization: Bearer …\r\n" if weir requires a token
    socket:send("GET " .. target .. " HTTP/1.0\r\n\r\n")
    local answer = socket:receive("*a")
    socket:close()
    if answer then
        return answer:match("^(HTTP/1.-\r\n)\r\n(.*)$")
    end
end

local function answer(txn, status, reason, headers, body)
    local reply = txn:reply({ status = status, reason = reason, body = body })
    for name, value in pairs(headers) do
        reply:add_header(name, value)
    end
    reply:add_header("Content-Type", "application/problem+json")
    reply:add_header("Cache-Control", "no-store")
    txn:done(reply)
end

local function ask_weir(txn, host, port, gate)
    local head, body = ask(host, port, gate .. "&ip=" .. txn.f:src())
    local status = head and tonumber(head:match("^HTTP/1%.%d (%d+)")) or 503

    if status >= 500 then
        return -- fail open. To fail closed: answer(txn, 503, "Service Unavailable", {}, "")
    end
    local headers = {}
    for _, name in ipairs({ "RateLimit", "RateLimit-Policy", "Retry-After" }) do
        headers[name] = head:match("\n" .. name:gsub("%-", "%%-") .. ": ([^\r]*)")
    end
    if status == 429 then
        answer(txn, 429, "Too Many Requests", headers, body)
    elseif status >= 300 then
        answer(txn, 500, "Internal Server Error", {},
            '{"type":"about:blank","title":"Internal Server Error","status":500}')
    else
        txn:set_var("txn.weir_ratelimit", headers["RateLimit"])
        txn:set_var("txn.weir_ratelimit_policy", headers["RateLimit-Policy"])
    end
end

core.register_action("ask_weir", { "http-req" }, ask_weir, 3)
