-- gcra.lua - what redis-cell's CL.THROTTLE does, as a script: the usual way without a module.
-- KEYS[1]  ARGV: burst, count, period in seconds
local burst, count, period = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = period * 1000000 / count
local tolerance = interval * burst
local tat = tonumber(redis.call('GET', KEYS[1])) or now
if tat < now then tat = now end

local allow_at = tat - tolerance
if now < allow_at then
    return {1, burst + 1, 0, math.ceil((allow_at - now) / 1000000), math.ceil((tat - now) / 1000000)}
end
tat = tat + interval
redis.call('SET', KEYS[1], string.format('%.3f', tat), 'PX', math.ceil((tat - now) / 1000) + 1)
return {0, burst + 1, math.floor((now + tolerance + interval - tat) / interval), -1,
        math.ceil((tat - now) / 1000000)}
