-- budget_reserve.lua - four limits held by one call: how a reservation is written by hand for Redis.
-- KEYS: the user's counts, the user's slots, the reservation
-- ARGV: id, ttl in ms, month, tokens, money; the limits: requests and tokens of a minute, money of
--       a month, slots
-- Returns 1 if it is held, and what remains of each.
if redis.call('EXISTS', KEYS[3]) == 1 then return {1, -1} end -- the caller asks again
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local minute = math.floor(now / 60000)
local id, ttl, month = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local tokens, money = tonumber(ARGV[4]), tonumber(ARGV[5])
local most_requests, most_tokens = tonumber(ARGV[6]), tonumber(ARGV[7])
local most_money, most_slots = tonumber(ARGV[8]), tonumber(ARGV[9])

local s = redis.call('HMGET', KEYS[1], 'minute', 'requests', 'level', 'at', 'month', 'money')
local requests = tonumber(s[1]) == minute and tonumber(s[2]) or 0
local level = most_tokens
if s[3] then
    level = math.min(most_tokens, tonumber(s[3]) + (now - tonumber(s[4])) * most_tokens / 60000)
end
local spent = s[5] == month and tonumber(s[6]) or 0
redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now)
local held = redis.call('ZCARD', KEYS[2])

if requests + 1 > most_requests or tokens > level or spent + money > most_money or
    held + 1 > most_slots then
    return {0, most_requests - requests, math.floor(level), most_money - spent, most_slots - held}
end
requests, level, spent = requests + 1, level - tokens, spent + money
redis.call('HSET', KEYS[1], 'minute', minute, 'requests', requests,
           'level', string.format('%.3f', level), 'at', now, 'month', month, 'money', spent)
redis.call('PEXPIRE', KEYS[1], 2764800000)
redis.call('ZADD', KEYS[2], now + ttl, id)
redis.call('PEXPIRE', KEYS[2], 86400000)
redis.call('SET', KEYS[3], tokens .. ' ' .. money .. ' ' .. month, 'PX', ttl + 600000)
return {1, most_requests - requests, math.floor(level), most_money - spent, most_slots - held - 1}
