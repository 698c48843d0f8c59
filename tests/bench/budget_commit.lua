-- budget_commit.lua - what a reservation of budget_reserve.lua has really used.
-- KEYS: the user's counts, the user's slots, the reservation
-- ARGV: id, tokens and money that were used
-- Returns 1, or 0 if there is no such reservation, and the tokens and the money given back.
local record = redis.call('GET', KEYS[3])
if not record then return {0, 0, 0} end
if string.sub(record, 1, 4) == 'done' then return {1, 0, 0} end -- the caller says it again
local tokens, money, month = string.match(record, '^(%d+) (%d+) (%d+)$')
local back, money_back = tokens - ARGV[2], money - ARGV[3]

if back ~= 0 or money_back ~= 0 then
    local s = redis.call('HMGET', KEYS[1], 'level', 'month', 'money')
    local level = string.format('%.3f', tonumber(s[1]) + back)
    if s[2] == month then
        redis.call('HSET', KEYS[1], 'level', level, 'money', tonumber(s[3]) - money_back)
    else
        redis.call('HSET', KEYS[1], 'level', level)
    end
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], 'done', 'KEEPTTL')
return {1, back, money_back}
