-- judge.lua - decides questions in Redis or Valkey, with the same results as src/limit/. It comes
-- behind limits.lua, and is one script with it. Reservations are in reserve.lua.
--
--     EVALSHA sha count-of-keys key... questions
--
-- KEYS are the distinct keys of all charges; in a cluster they are all of one slot. A key is
--
--     rl:{tag}:policy:rule:hash
--
-- with hash the charge's 128 bits in hex, over policy, rule, algorithm, window and identity, so
-- that the algorithm and the window of a key never change. The tag is four hex digits of a keyed
-- hash of the identity alone (of policy and rule, for a rule that counts all clients together). So
-- the rules of a check that count by the same identity share a slot, and identities spread over all
-- slots. A tag per policy would put a whole policy on one master. A tag from some of the attributes
-- would do the same if these have few values. 16 bits are enough for the slot, and too few to
-- identify a client.
--
-- ARGV[1] is a MessagePack array of integers:
--
--     count of rules, each: algorithm, limit, window, burst, precision, block_for
--     questions until the end: verb, now, count of charges, each: key, rule, cost
--
-- with key and rule as numbers from 1. A fixed window that begins with the first charge in it has
-- the algorithm 17; one of the calendar has 33, and behind the block_for five boundaries around now,
-- of which the window is found by its clock. 49, 65 and 81 are as 17, but that charges move their end. Verbs: 0 check, 1 peek, 2 refund, 3 reset, 4 undo, 5 charge. A now of 0 is Redis's clock.
-- A charge of cost 0 passes and changes nothing. Each charge of an undo has two more numbers, see
-- below. Algorithms are those of weir.h. A cell (15, src/limit/cell.c) has times beyond 2^53 ns, so each is two words, whole ms
-- and the remaining ns from 0 to 999,999:
--
--     15, interval (2), interval * capacity (2), interval * cost (2), added to reset_after (2)
--
-- A refund has a negative cost here. Of the cost of its charge only "0 or not" is used.
-- The reply is one string: little-endian, Redis's time in ms as a double, then for each charge a
-- byte that is 1 if it is allowed, and the doubles remaining, retry_after, reset_after, delay. An
-- infinite one stands for the largest integer.
--
-- A charge (verb 5) has happened: it is counted whatever the limit says. Its `remaining` is below 0
-- by how much the limit is exceeded. Counts stop where they would not be exact any more (L4).
--
-- A QUESTION OF SEVERAL SLOTS is one call for each slot, in parallel. If all allow, it is allowed.
-- If one denies, or does not answer, the others are undone: verb 4. Its fourth number is the time in
-- the reply (or the question's now) plus the charge's reset_after, its fifth that time. They say
-- which charge is undone, not only how much. (A cell is always alone.)
-- WHY NOT a refund: it takes back the latest admission, even one of the next window, and so could
-- admit one too many. An undo takes back what is still left of that one charge, and never more.
-- Before the undo other requests may be denied without need. A charge that is never undone counts
-- until it expires. While a slot moves, a call with several keys may be answered TRYAGAIN; a call
-- with one key never is.
--
-- RULES (test_script and test_numbers in tests/lua/ have tests of each)
--   L1  A question is charged whole or not at all, and sees the charges of those before it.
--   L2  Denied questions, peeks and questions of cost 0 write nothing, but that the denial by a rule
--       with a block_for locks the rule's key out.
--   L3  A key expires when its state is as new, and is deleted if that happens earlier. A key that
--       was charged at a caller's own time stays an hour longer, because that clock may be slower.
--   L4  Every number below 2^53 is exact. Products are: limit * window and burst * window are below
--       it, also those of earlier limits and of debts. Sums that may exceed it are written as differences. A
--       cell is exact as long as its times are below 2^53 us, 285 years.
--   L5  Keys are in KEYS. Nothing is written before all is decided. Then each key is written once,
--       by SET with an absolute expiry or DEL: replicas and the append-only file get the result.
--
-- A refund, reset or undo is published on the channel rl:news, as 'key ' and the hash.
--

local asked = cmsgpack.unpack(ARGV[1])
-- In no function, as it would have all of the algorithms for upvalues.
local rules, at = {}, 2
for i = 1, asked[1] do
    local algorithm, limit, take, refund, format = asked[at], asked[at + 1], nil, nil, '<dd'
    if algorithm == 15 then
        rules[i] = { algorithm = algorithm, take = take_cell, format = format,
            interval_ms = limit, interval_ns = asked[at + 2], most_ms = asked[at + 3],
            most_ns = asked[at + 4], cost_ms = asked[at + 5], cost_ns = asked[at + 6],
            added_ms = asked[at + 7], added_ns = asked[at + 8] }
        at = at + 9
    else
        if algorithm == 1 then
            take, refund = take_fixed_window, refund_windows
        elseif algorithm == 2 then
            take, refund, format = take_sliding_window, refund_sliding_window, '<ddd'
        elseif algorithm == 3 then
            take, refund, format = take_sliding_counter, refund_windows, '<ddd'
        elseif algorithm == 4 or algorithm == 5 then
            take, refund = take_bucket, refund_bucket
        elseif algorithm == 6 then
            need_holds()
            take = holds.take_slots
        elseif starts_with_first[algorithm] then
            take, refund, format = take_first_window, refund_first_window, '<ddd'
        else
            return redis.error_reply('ERR there is no algorithm ' .. tostring(algorithm))
        end
        rules[i] = { algorithm = algorithm, take = limit > 0 and take or take_none,
            refund = limit > 0 and refund, format = format, limit = limit, window = asked[at + 2],
            burst = asked[at + 3], precision = asked[at + 4], block = asked[at + 5] }
        at = at + 6
        if algorithm == 33 then
            rules[i].bounds = { unpack(asked, at, at + 4) }
            at = at + 5
        end
    end
end

local values
if #KEYS == 1 then
    values = { redis.call('GET', KEYS[1]) }
elseif #KEYS <= 1000 then
    values = redis.call('MGET', unpack(KEYS))
else -- unpack() is limited to a stack of 8000
    values = {}
    for from = 1, #KEYS, 1000 do
        local part = redis.call('MGET', unpack(KEYS, from, math.min(from + 999, #KEYS)))
        for i = 1, #part do
            values[from + i - 1] = part[i]
        end
    end
end

local states = {}
local function state_of(k, r) -- reads it once, on first use
    local s = read_state(KEYS[k], values[k], r)
    if s.was_held then -- an error, before all that is written, if its slot moves and one is not here
        redis.call('EXISTS', s.key, s.key .. ':h')
    elseif s.was_leased then
        redis.call('EXISTS', s.key, s.key .. ':l')
    end
    states[k] = s
    return s
end

local time = redis.call('TIME')
local clock = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local reply, changed = { struct.pack('<d', clock) }, {}

while at <= #asked do
    local verb, given, count = asked[at], asked[at + 1], asked[at + 2]
    local forced, each = verb == 5, verb == 4 and 5 or 3
    local now, charge = given > 0 and given or clock, verb == 0 or forced
    local from, to = at + 3, at + 2 + count * each
    if verb > 5 then -- never treat it as another verb: that would charge or refund
        return redis.error_reply('ERR there is no verb ' .. tostring(verb))
    end
    if verb <= 1 and count > 1 then -- check all charges, then charge all
        for i = from, to, each do
            local k, r = asked[i], rules[asked[i + 1]]
            charge = take(states[k] or state_of(k, r), r, now, asked[i + 2], charge) and charge
        end
    end
    for i = from, to, each do
        local k, r, cost = asked[i], rules[asked[i + 1]], asked[i + 2]
        local s, is_changed = states[k] or state_of(k, r), false
        local is_undone = verb == 4 and s.b == asked[i + 4] -- of a bucket: nothing has drained since
        local allowed, remaining, retry, reset, delay, used_now, a, b, c, older
        if verb <= 1 or forced or r.algorithm == 15 and verb == 2 and s.a then
            allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
                take(s, r, now, cost, charge or verb == 2, forced)
            is_changed = allowed and cost ~= 0 and (charge or verb == 2)
            if is_changed and r.algorithm == 6 then
                return redis.error_reply('ERR slots are taken by a reservation')
            elseif is_changed then
                s.locked = forced and s.locked and now < s.locked and s.locked
            elseif verb == 0 and not allowed and retry ~= -1 and r.block and r.block > 0
                and not (s.locked and now < s.locked) then
                s.locked, is_changed, used_now, a, s.is_held = now + r.block, true, now, nil, false
                s.leased = nil
                remaining, retry, reset = 0, r.block, r.block
            end
        else
            if verb == 3 then
                is_changed, s.a, s.locked, s.is_held = s.a or s.locked or s.leased, nil, false, false
                s.leased = nil
                if r.algorithm == 6 then
                    s.b, s.first, s.last = 0, 0, 0
                end
            elseif (s.a or s.leased) and not s.locked and cost > 0 and r.refund then
                is_changed = true
                if s.releases then
                    holds.give_back_expired(s, r, now)
                end
                if s.leased then
                    holds.end_leases(s, r, now)
                end
                if s.a then
                    r.refund(s, r, now, cost, verb == 4 and asked[i + 3], asked[i + 4])
                end
            end
            allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
                take(s, r, now, 0, false)
            if not s.a or not s.is_held
                and (reset == 0 or b == 0 and (r.algorithm == 1 or r.bounds)) then
                a = nil
            end
            delay = 0 -- only checks and peeks have a delay
        end
        reply[#reply + 1] =
            struct.pack('<Bdddd', allowed and 1 or 0, remaining, retry, reset, delay)
        if is_changed then
            if not s.expiry then
                changed[#changed + 1] = s
            end
            if s.born and (not a or a ~= s.a and (r.algorithm == 1 or r.algorithm > 15)) then
                s.born, s.releases = false, nil -- what was held of it is over
            end
            s.a, s.b, s.c, s.older = a, b, c, older or ''
            if s.is_held and a then
                holds.bring_up(s, r, b)
                if charge then
                    s.known = math.min(s.known + cost * r.window, 2^53 - 1)
                elseif is_undone then
                    s.known = math.max(0, s.known - cost * r.window)
                end
                s.is_held = s.sum > 0 or s.known > 0 and s.known ~= a
                reset = math.max(reset, holds.lasts_until(s, r) - b) -- of the key, not of the answer
            end
            s.is_given_back = s.is_given_back or verb > 1 and not forced or r.cost_ms and r.cost_ms < 0
            s.expiry = given > 0 and clock + reset + 3600000 or used_now + reset
        end
    end
    at = to + 1
end

for i = 1, #changed do -- deny caches of servers must forget these keys
    if changed[i].is_given_back then
        redis.call('PUBLISH', 'rl:news', 'key ' .. string.sub(changed[i].key, -32))
    end
end

local expiry, text -- cached: many keys share it, and formatting is slow
for i = 1, #changed do
    local s = changed[i]
    local r = s.rule
    if s.locked then
        local state = s.a and struct.pack(r.format, s.a, s.b, s.c) .. s.older or ''
        redis.call('SET', s.key, struct.pack('<c1d', 'L', s.locked) .. state, 'PXAT',
            string.format('%.0f', s.expiry))
    elseif s.a and r.algorithm == 1 and s.a == s.stored then -- in the same window
        redis.call('SET', s.key, s.born and holds.value_of(s) or struct.pack('<dd', s.a, s.b), 'KEEPTTL')
    elseif s.a or s.leased then
        if s.expiry ~= expiry then
            expiry, text = s.expiry, string.format('%.0f', s.expiry)
        end
        redis.call('SET', s.key, (s.born or s.is_held or s.leased) and holds.value_of(s)
            or struct.pack(r.format, s.a, s.b, s.c) .. s.older, 'PXAT', text)
    elseif s.stored then
        redis.call('DEL', s.key)
    end
    if s.was_held and (s.locked or not s.a or not (s.is_held or s.releases)) then
        redis.call('DEL', s.key .. ':h')
    elseif s.was_held then
        redis.call('PEXPIREAT', s.key .. ':h', string.format('%.0f', s.expiry))
        if s.gone then -- last: it may have been all of them
            redis.call('ZREMRANGEBYSCORE', s.key .. ':h', '-inf', s.gone)
        end
    end
    if s.was_leased then
        holds.keep_leases(s, string.format('%.0f', s.expiry))
    end
end
return table.concat(reply)
