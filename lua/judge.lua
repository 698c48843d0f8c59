-- judge.lua - decides questions in Redis or Valkey, with the same results as src/limit/.
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
-- of which the window is found by its clock. Verbs: 0 check, 1 peek, 2 refund, 3 reset, 4 undo, 5 charge. A now of 0 is Redis's clock.
-- A charge of cost 0 passes and changes nothing. Each charge of an undo has a fourth number, see
-- below. Algorithms are those of
-- weir.h. A cell (15, src/limit/cell.c) has times beyond 2^53 ns, so each is two words, whole ms
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
-- the reply (or the question's now) plus the charge's reset_after. It says which charge is undone,
-- not only how much. (A cell is always alone.)
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
-- FORMAT of values, little-endian doubles: fixed window: start, count (17: and end); sliding counter: start,
-- current, previous; buckets: used, at; cell: ms, ns. Sliding window: newest start, its count,
-- total, then the older entries, oldest first, each 6 bytes of start and 7 of count.

-- Before the value of a key that is locked out are 'L' and when that ends, a double. So lengths tell
-- it apart: without it they are 3 or 11 modulo 13. The state behind it is what was charged meanwhile.

-- Upvalues cost more than they save in a script that Redis runs from the top each time, so these
-- functions have none. A state `s` is new while it has no `a`.
--
-- take_x() decides and changes nothing. It returns the decision (allowed, remaining, retry_after,
-- reset_after, delay), the time used, and the next state (a, b, c, older).

local function take_none(_, _, now, cost) -- a limit of 0: always denied, retry_after never
    return cost == 0, 0, cost == 0 and 0 or -1, 0, 0, now
end

local function take_fixed_window(s, r, now, cost, charge, forced)
    local start, limit, window, count, allowed, retry = s.a, r.limit, r.window, 0, true, 0
    if start and now < start then -- a clock that stepped back must not reopen an old window
        now = start
    end
    local begin = now - now % window
    if begin == start then
        count = s.b
    end
    local left, rest = limit - count, window - (now - begin)
    if forced then
        count = math.max(count, math.min(count + cost, 2^53 - 1))
        return true, limit - count, 0, rest, 0, now, begin, count, 0
    elseif cost > limit then
        allowed, retry = false, -1
    elseif cost > 0 and cost > left then
        allowed, retry = false, rest
    elseif charge then
        count, left = count + cost, left - cost
    end
    return allowed, left > 0 and left or 0, retry, rest, 0, now, begin, count, 0
end

-- One that begins with the first charge: without a window in force there is no state. Or one of the
-- calendar. A window that is in force keeps its end, whatever the boundaries say now.
local function take_first_window(s, r, now, cost, charge, forced)
    local start, count, ends, limit, allowed, retry = s.a, s.b, s.c, r.limit, true, 0
    if start and now < start then
        now = start
    end
    if not start or now >= ends then
        start, count, ends = nil, 0, 0
        for i = 1, r.bounds and 4 or 0 do
            if r.bounds[i] <= now and now < r.bounds[i + 1] then
                start, ends = r.bounds[i], r.bounds[i + 1]
            end
        end
        if r.bounds and not start then
            error('the clocks of Redis and of weir differ by more than a window')
        end
    end
    local left = limit - count
    if forced then
        if not start and cost > 0 then
            start, ends = now, now + r.window
        end
        count = math.max(count, math.min(count + cost, 2^53 - 1))
        return true, limit - count, 0, start and ends - now or 0, 0, now, start, count, ends
    elseif cost > limit then
        allowed, retry = false, -1
    elseif cost > 0 and cost > left then
        allowed, retry = false, ends - now
    elseif charge and cost > 0 then
        if not start then
            start, ends = now, now + r.window
        end
        count, left = count + cost, left - cost
    end
    return allowed, left > 0 and left or 0, retry, start and ends - now or 0, 0, now, start, count,
        ends
end

local function take_sliding_counter(s, r, now, cost, charge, forced)
    local start, limit, window, current, previous = s.a, r.limit, r.window, 0, 0
    local allowed, retry = true, 0
    if start and now < start then
        now = start
    end
    local begin = now - now % window
    if begin == start then
        current, previous = s.b, s.c
    elseif start and begin - start == window then
        previous = s.b
    end
    local rest = window - (now - begin)
    local room = (limit - current) * window - previous * rest -- inexact only far below 0
    if forced then
        local most = 2^53 - 1 - (2^53 - 1) % window
        current = math.max(current, math.min(current + cost, most / window))
        local fading = previous * rest
        fading = (fading - fading % window) / window + (fading % window > 0 and 1 or 0)
        return true, limit - current - fading, 0,
            current > 0 and rest + window or previous > 0 and rest or 0, 0, now,
            begin, current, previous
    elseif cost > limit then
        allowed, retry = false, -1
    elseif cost > 0 and cost * window > room then
        local free = limit - current - cost
        allowed = false
        if free >= 0 then -- in this window only the previous count decays
            free = free * window
            retry = rest - (free - free % previous) / previous
        else -- after it, this count decays
            free = (limit - cost) * window
            retry = rest + window - (free - free % current) / current
        end
    elseif charge then
        current, room = current + cost, room - cost * window
    end
    local reset = current > 0 and rest + window or previous > 0 and rest or 0
    return allowed, room > 0 and (room - room % window) / window or 0, retry, reset, 0, now,
        begin, current, previous
end

local function take_bucket(s, r, now, cost, charge, forced)
    local used, at, limit, window, burst = s.a or 0, s.b or 0, r.limit, r.window, r.burst
    local allowed, retry, delay = true, 0, 0
    if now < at then -- a clock that stepped back must not mint tokens
        now = at
    end
    used = used - (now - at) * limit -- where the product is inexact, it exceeds `used`
    if used < 0 then
        used = 0
    end
    local over = used + (cost - burst) * window
    if forced then -- a product beyond 2^53 is inexact, and too much in any case
        used = math.max(used, math.min(used + cost * window, 2^53 - 1))
        local ms, units = used % limit, used % window
        return true, burst - (used - units) / window - (units > 0 and 1 or 0), 0,
            (used - ms) / limit + (ms > 0 and 1 or 0), 0, now, used, now, 0
    elseif cost > burst then
        allowed, retry = false, -1
    elseif over > 0 and cost > 0 then
        allowed, retry = false, (over - over % limit) / limit + (over % limit > 0 and 1 or 0)
    else
        if r.algorithm == 5 then -- leaky
            delay = (used - used % limit) / limit + (used % limit > 0 and 1 or 0)
        end
        if charge then
            used = used + cost * window
        end
    end
    local left = burst * window - used
    return allowed, left > 0 and (left - left % window) / window or 0, retry,
        (used - used % limit) / limit + (used % limit > 0 and 1 or 0), delay, now, used, now, 0
end

-- A bucket of the log counts until its end has left the window: `life` after its start.
local function take_sliding_window(s, r, now, cost, charge, forced)
    local newest, count, total, older, limit = s.a, s.b, s.c, s.older, r.limit
    local life = r.window + (r.precision - 1)
    local allowed, retry, from = true, 0, 1
    if newest and now < newest then -- a clock that stepped back must not un-count
        now = newest
    end
    if not newest or now - newest >= life then
        newest, count, total, older = nil, 0, 0, ''
    end
    while from < #older do
        local start, counted, following = struct.unpack('<I6I7', older, from)
        if now - start < life then
            break
        end
        total, from = total - counted, following
    end
    if forced then
        cost = math.max(0, math.min(cost, 2^53 - 1 - total))
    end
    if cost > limit and not forced then
        allowed, retry = false, -1
    elseif cost > 0 and cost > limit - total and not forced then -- wait until enough units have expired
        local excess, at, start, counted = cost - (limit - total), from, newest, nil
        while excess > 0 and at < #older do
            start, counted, at = struct.unpack('<I6I7', older, at)
            excess = excess - counted
        end
        allowed, retry = false, (excess > 0 and newest or start) - now + life
    elseif charge and cost > 0 then
        local start = now - now % r.precision
        if newest and newest >= start then -- later than `start` after the precision was widened
            count = count + cost
        else
            if newest then
                older = older .. struct.pack('<I6I7', newest, count)
            end
            newest, count = start, cost
        end
        total = total + cost
    end
    if from > 1 then
        older = string.sub(older, from)
    end
    local left = limit - total
    return allowed, (left > 0 or forced) and left or 0, retry,
        total > 0 and newest - now + life or 0, 0, now,
        newest, count, total, older
end

-- Times are relative to now, as whole ms and the remaining ns from 0 to 999,999.
local function take_cell(s, r, now, cost, charge)
    local ms, ns, most_ms, most_ns = 0, 0, r.most_ms, r.most_ns
    local cost_ms, cost_ns = r.cost_ms, r.cost_ns
    if s.a and s.a >= now then
        ms, ns = s.a - now, s.b
    end
    if cost == 0 then
        cost_ms, cost_ns = 0, 0
    end
    local later_ms, later_ns = ms + cost_ms, ns + cost_ns
    if later_ns >= 1e6 then
        later_ms, later_ns = later_ms + 1, later_ns - 1e6
    end
    local ahead_ms, ahead_ns = later_ms - most_ms, later_ns - most_ns
    if ahead_ns < 0 then
        ahead_ms, ahead_ns = ahead_ms - 1, ahead_ns + 1e6
    end
    local allowed, retry, remaining = ahead_ms < 0 or ahead_ms == 0 and ahead_ns == 0, 0, 0
    if not allowed then
        local never = cost_ms > most_ms or cost_ms == most_ms and cost_ns > most_ns
        retry = never and -1 or ahead_ms
    elseif charge then
        ms, ns = later_ms, later_ns
    end

    local left_ms, left_ns = most_ms - ms, most_ns - ns
    if left_ns < 0 then
        left_ms, left_ns = left_ms - 1, left_ns + 1e6
    end
    local above_ms, above_ns = left_ms + r.interval_ms, left_ns + r.interval_ns
    if above_ms > 0 or above_ms == 0 and above_ns > 0 or above_ms == -1 and above_ns > 1e6 then
        local interval = r.interval_ms * 1000 + (r.interval_ns - r.interval_ns % 1000) / 1000
        local us = left_ms * 1000 + (left_ns - left_ns % 1000) / 1000
        if left_ms < 0 and left_ns % 1000 > 0 then
            us = us + 1
        end
        if us > 0 then -- towards zero; infinite if an interval is less than a us
            remaining = (interval > 0 and us - us % interval or us) / interval
        elseif us < 0 then
            remaining = (interval > 0 and us + -us % interval or us) / interval
        end
    end

    local reset, reset_ns = ms + r.added_ms, ns + r.added_ns
    if reset_ns >= 1e6 then
        reset, reset_ns = reset + 1, reset_ns - 1e6
    end
    if reset < 0 and reset_ns > 0 then
        reset = reset + 1
    end
    -- The answer is truncated to whole ms, the state is not.
    local stays = ms >= 0 and ms + (ns > 0 and 1 or 0) or 0
    return allowed, remaining, retry, reset, 0, now + stays - reset,
        stays > 0 and now + ms or nil, ns, 0
end

-- refund_x() advances a state to now and takes up to `cost` off it; with `due` (an undo) only off
-- the charge that expires at that time.

local function refund_windows(s, r, now, cost, due)
    local start, window, current, previous, lasts, back, before = s.a, r.window, s.b, 0, 1, 0, 0
    if now < start then
        now = start
    end
    local begin = now - now % window
    if r.algorithm == 3 then -- a sliding counter
        lasts = 2
        previous = begin == start and s.c or begin - start == window and current or 0
    end
    if begin ~= start then
        current = 0
    end
    if not due or due == begin + lasts * window then
        back = math.min(cost, current)
    end
    if not due or due == begin + window then
        before = math.min(cost - back, previous)
    end
    s.a, s.b, s.c = begin, current - back, previous - before
end

local function refund_first_window(s, _, now, cost, due)
    if now < s.c and (not due or due == s.c) then
        s.b = s.b - math.min(cost, s.b)
        if due and s.b == 0 then -- the charge that began the window never was
            s.a = nil
        end
    end
end

local function refund_bucket(s, r, now, cost, due)
    local window, limit, was = r.window, r.limit, s.a
    if now < s.b then
        now = s.b
    end
    local used = math.max(0, was - (now - s.b) * limit)
    local most = (used - used % window) / window + (used % window > 0 and 1 or 0)
    local back = math.min(math.min(cost, most) * window, used)
    -- If later charges came, the bucket may have been empty without this one then, with nothing
    -- to drain. A charge that lasts less than a ms may be the last one and not look like it.
    local until_empty = (was - was % limit) / limit + (was % limit > 0 and 1 or 0)
    if due and (limit > window or s.b + until_empty ~= due) then
        back = math.min(back, math.max(0, (due - 1 - now) * limit))
    end
    s.a, s.b = used - back, now
end

local function refund_sliding_window(s, r, _, cost, due)
    local older, left, life = s.older, cost, r.window + (r.precision - 1)
    if due and due ~= s.a + life then
        for at = 1, #older, 13 do
            local start, count, after = struct.unpack('<I6I7', older, at)
            if start + life == due then
                left = cost - math.min(cost, count)
                count = count - (cost - left)
                local rest = count > 0 and struct.pack('<I6I7', start, count) or ''
                s.older = string.sub(older, 1, at - 1) .. rest .. string.sub(older, after)
                break
            end
        end
    else -- newest first: a refund takes back the latest admissions
        local to, back = #older, math.min(cost, s.b)
        s.b, left = s.b - back, cost - back
        while s.b == 0 and to > 0 do
            s.a, s.b = struct.unpack('<I6I7', older, to - 12)
            to = to - 13
            back = due and 0 or math.min(left, s.b)
            s.b, left = s.b - back, left - back
        end
        s.older = string.sub(older, 1, to)
    end
    s.c = s.c - (cost - left)
end

local asked = cmsgpack.unpack(ARGV[1])
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
        elseif algorithm == 17 or algorithm == 33 then
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
    local value, a, b, c, older, locked = values[k], nil, 0, 0, '', false
    if value and #value % 13 ~= 3 and #value % 13 ~= 11 then
        locked, value = struct.unpack('<d', value, 2), #value > 9 and string.sub(value, 10)
    end
    if value then
        a, b, c = struct.unpack(r.format, value)
        older = r.algorithm == 2 and string.sub(value, 25) or ''
    end
    local s = { key = KEYS[k], rule = r, a = a, b = b, c = c, older = older,
        stored = locked and true or a, locked = locked, expiry = false, is_given_back = false }
    states[k] = s
    return s
end

local function take(s, r, now, cost, charge, forced)
    if not s.locked or r.limit == 0 then
        return r.take(s, r, now, cost, charge, forced)
    elseif now < s.locked then
        local rest = s.locked - now
        if forced then -- counted, and forgotten when the lockout ends
            local _, remaining, _, _, _, _, a, b, c, older = r.take(s, r, now, cost, charge, true)
            return true, math.min(remaining, 0), 0, rest, 0, now, a, b, c, older
        end
        return cost == 0, 0, cost == 0 and 0 or rest, rest, 0, now
    end -- it is over: the key is untouched
    return r.take({ b = 0, c = 0, older = '' }, r, now, cost, charge, forced)
end

local time = redis.call('TIME')
local clock = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local reply, changed = { struct.pack('<d', clock) }, {}

while at <= #asked do
    local verb, given, count = asked[at], asked[at + 1], asked[at + 2]
    local forced, each = verb == 5, verb == 4 and 4 or 3
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
        local allowed, remaining, retry, reset, delay, used_now, a, b, c, older
        if verb <= 1 or forced or r.algorithm == 15 and verb == 2 and s.a then
            allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
                take(s, r, now, cost, charge or verb == 2, forced)
            is_changed = allowed and cost ~= 0 and (charge or verb == 2)
            if is_changed then
                s.locked = forced and s.locked and now < s.locked and s.locked
            elseif verb == 0 and not allowed and retry ~= -1 and r.block and r.block > 0
                and not (s.locked and now < s.locked) then
                s.locked, is_changed, used_now, a = now + r.block, true, now, nil
                remaining, retry, reset = 0, r.block, r.block
            end
        else
            if verb == 3 then
                is_changed, s.a, s.locked = s.a or s.locked, nil, false
            elseif s.a and not s.locked and cost > 0 and r.refund then
                is_changed = true
                r.refund(s, r, now, cost, verb == 4 and asked[i + 3])
            end
            allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
                take(s, r, now, 0, false)
            if reset == 0 or b == 0 and (r.algorithm == 1 or r.bounds) then
                a = nil
            end
            delay = 0 -- only checks and peeks have a delay
        end
        if is_changed then
            if not s.expiry then
                changed[#changed + 1] = s
            end
            s.a, s.b, s.c, s.older = a, b, c, older or ''
            s.is_given_back = s.is_given_back or verb > 1 and not forced or r.cost_ms and r.cost_ms < 0
            s.expiry = given > 0 and clock + reset + 3600000 or used_now + reset
        end
        reply[#reply + 1] =
            struct.pack('<Bdddd', allowed and 1 or 0, remaining, retry, reset, delay)
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
        redis.call('SET', s.key, struct.pack(r.format, s.a, s.b), 'KEEPTTL')
    elseif s.a then
        if s.expiry ~= expiry then
            expiry, text = s.expiry, string.format('%.0f', s.expiry)
        end
        redis.call('SET', s.key, struct.pack(r.format, s.a, s.b, s.c) .. s.older, 'PXAT', text)
    elseif s.stored then
        redis.call('DEL', s.key)
    end
end
return table.concat(reply)
