-- limits.lua - the algorithms, with the same results as src/limit/, and the states of keys. It goes
-- before judge.lua and before reserve.lua: each is one script with it.
--
-- FORMAT of the value of a key, little-endian doubles: fixed window: start, count (17, 33: and end);
-- sliding counter: start, current, previous; buckets: used, at; slots: at, held, first and last
-- expiry; cell: ms, ns. Sliding window: newest start, its count, total, then the older entries,
-- oldest first, each 6 bytes of start and 7 of count.
--
-- RESERVATIONS. A window that has something of a reservation has 8 bytes at its end: what the key
-- was called when the first of them was made. So what was held before a reset, an eviction or a
-- lockout is not taken for what was counted since. A bucket with holds has 49 bytes: used, at, known
-- (used for certain), the sum of its open holds, their first and last expiry, and 'H'. The open holds
-- of a bucket and of slots are in a sorted set, the key and ':h', by expiry: each 16 bytes of its
-- reservation's hash and its amount. A bucket is one without holds again when it has none, and what
-- is known is all that is used.
--
-- GIVEN BACK WHEN THEY EXPIRE. Such holds of a bucket have an 'R' behind the amount, and the bucket
-- ends with 'R' instead of 'H'. Such holds of a window are in a sorted set too: each 16 bytes of the
-- hash, then of each part its amount, its mark, and the 8 bytes that the window ended with. In these
-- the first byte is odd while there may be such a set. What has expired is given back by the next
-- call that looks at the key, as of then: no server has to be there when it expires. Until when a
-- denial holds is at most until the next of them expires, so that no deny cache knows it for longer.
--
-- LEASES. What is leased of a log, a counter or a bucket is beside its state and stands still: it is
-- counted in full until it is settled, and counted as used from then on, or from the instant at which
-- it expires. Such a value ends with three doubles, the sum of what is leased, the first and the last
-- expiry, then zeros and how many: it is a multiple of 13 long. The leases are in a sorted set, the key
-- and ':l', by expiry: each 16 bytes of its record's hash and its amount. This is why no limit is
-- exceeded: of all that is let in within an interval, let T be when the last of it was granted. What is
-- leased at T counts in full then. All else was settled since the interval began, and is dated after
-- it was let in: so at T it counts for at least as much as if it were dated when it was. At T all that
-- counts is no more than the limit.
--
-- Before the value of a key that is locked out are 'L' and when that ends, a double. So lengths tell
-- it apart: without it they are 0, 3, 6, 10 or 11 modulo 13. The state behind it is what was charged
-- meanwhile.

-- Upvalues cost more than they save in a script that Redis runs from the top each time, so these
-- functions have none. A state `s` is new while it has no `a`.
--
-- take_x() decides and changes nothing. It returns the decision (allowed, remaining, retry_after,
-- reset_after, delay), the time used, and the next state (a, b, c, older).

local function take_none(_, _, now, cost) -- a limit of 0: always denied, retry_after never
    return cost == 0, 0, cost == 0 and 0 or -1, 0, 0, now
end

-- Fixed windows that begin with the first charge in them, or with the calendar (33).
local starts_with_first = { [17] = true, [33] = true, [49] = true, [65] = true, [81] = true }

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
-- calendar. A window that is in force keeps its end, whatever the boundaries say now. Of 49, 65 and
-- 81 a charge moves it: each one; each that leaves more than the limit; or so, twice as far each time.
local function end_of(r, now, count, ends)
    local kind, window, over = r.algorithm, r.window, count - r.limit
    if ends ~= 0 and kind ~= 49 and (kind < 49 or over <= 0) then
        return ends
    elseif kind == 81 and over > 0 then
        window = over > 53 and 2^53 - 1 or math.min(window * 2 ^ (over - 1), 2^53 - 1)
    end
    return now + window
end

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
        count = math.max(count, math.min(count + cost, 2^53 - 1))
        if cost > 0 then
            start, ends = start or now, end_of(r, now, count, ends)
        end
        return true, limit - count, 0, start and ends - now or 0, 0, now, start, count, ends
    elseif cost > limit then
        allowed, retry = false, -1
    elseif cost > 0 and cost > left then
        allowed, retry = false, ends - now
    elseif charge and cost > 0 then
        count, left = count + cost, left - cost
        start, ends = start or now, end_of(r, now, count, ends)
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

local function refund_bucket(s, r, now, cost, due, charged_at)
    local window, limit, was = r.window, r.limit, s.a
    if now < s.b then
        now = s.b
    end
    local used = math.max(0, was - (now - s.b) * limit)
    local most = (used - used % window) / window + (used % window > 0 and 1 or 0)
    local back = math.min(math.min(cost, most) * window, used)
    -- If later charges came, the bucket may have been empty without this one then, with nothing
    -- to drain. A charge that lasts less than a ms may look like the last one. None drained before
    -- one of the same ms.
    local until_empty = (was - was % limit) / limit + (was % limit > 0 and 1 or 0)
    if due and s.b ~= charged_at and (limit > window or s.b + until_empty ~= due) then
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

-- What is needed for keys that something is held of. Few are: so these functions are made when the
-- first is met, and cost nothing until then.
local holds
local function need_holds()
    if holds then
        return
    end
    holds = {}

    -- Slots: what is held at once. They are taken by reservations alone.
    function holds.take_slots(s, r, now, cost, charge)
        local limit, held, allowed, retry = r.limit, s.b, true, 0
        if s.a and now < s.a then -- a clock that stepped back must not bring back what has expired
            now = s.a
        end
        if now >= s.last then
            held = 0
        elseif s.first <= now then
            local expired = redis.call('ZRANGEBYSCORE', s.key .. ':h', '-inf', string.format('%.0f', now))
            for i = 1, #expired do
                held = held - struct.unpack('<d', expired[i], 17)
            end
        end
        if cost > limit then
            allowed, retry = false, -1
        elseif cost > 0 and cost > limit - held then -- until enough have expired
            local from, excess, seen, expires = string.format('(%.0f', now), held + cost - limit, 0, now
            while excess > 0 do
                local holds = redis.call('ZRANGEBYSCORE', s.key .. ':h', from, '+inf', 'WITHSCORES',
                    'LIMIT', seen, 16)
                if #holds == 0 then -- evicted: the last expiry is all that is known
                    expires = s.last
                    break
                end
                for i = 1, #holds, 2 do
                    if excess > 0 then
                        excess = excess - struct.unpack('<d', holds[i], 17)
                        expires = tonumber(holds[i + 1])
                    end
                end
                seen = seen + 16
            end
            allowed, retry = false, expires - now
        elseif charge then
            held = held + cost
        end
        local left = limit - held
        return allowed, left > 0 and left or 0, retry, s.last > now and s.last - now or 0, 0, now, now,
            held, 0
    end

    -- Brings what is known to be used of a bucket up to now: holds that expire on the way become known
    -- one after the other, each at its instant. A bucket without holds knows what it has used.
    -- With `is_level`, so is what it has used.
    function holds.bring_up(s, r, now, is_level)
        local known, at, lost, used, used_at = s.known, s.known_at, 0, s.a, s.b
        if s.sum > 0 and s.first <= now then
            local key, to = s.key .. ':h', string.format('%.0f', now)
            local expired = redis.call('ZRANGEBYSCORE', key, s.gone and '(' .. s.gone or '-inf', to,
                'WITHSCORES')
            for i = 1, #expired, 2 do
                local amount, expires = struct.unpack('<d', expired[i], 17), tonumber(expired[i + 1])
                if expires > at then
                    known, at = math.max(0, known - (expires - at) * r.limit), expires
                end
                s.sum = s.sum - amount
                if #expired[i] == 24 then
                    known = math.min(known + amount * r.window, 2^53 - 1)
                elseif is_level then -- as if it were released
                    if expires > used_at then
                        used, used_at = math.max(0, used - (expires - used_at) * r.limit), expires
                    end
                    used = math.min(used, known + s.sum * r.window)
                end
            end
            local following = redis.call('ZRANGEBYSCORE', key, '(' .. to, '+inf', 'WITHSCORES', 'LIMIT',
                0, 1)
            s.gone, s.first = to, tonumber(following[2] or s.last)
            if not following[2] then -- what is not found there was evicted
                lost, s.sum = s.sum, 0
            end
        end
        known = math.max(0, known - (now - at) * r.limit)
        s.known, s.known_at = math.min(known + lost * r.window, 2^53 - 1), now
        if is_level then
            s.a, s.b = math.max(0, used - (now - used_at) * r.limit), now
        end
    end

    -- Takes a part of a reservation out of the window that it was charged to.
    function holds.take_out(s, r, now, amount, mark, born)
        if not s.a or s.born ~= born or not r.refund then -- it is gone, with the rest
        elseif r.algorithm > 15 then
            if mark == s.a and now < s.c then
                s.b = s.b - math.min(amount, s.b)
            end
        else
            local life = r.algorithm == 1 and r.window or r.algorithm == 3 and 2 * r.window
                or r.window + (r.precision - 1)
            r.refund(s, r, now, amount, mark + life)
        end
    end

    -- Gives back what has expired by now.
    function holds.give_back_expired(s, r, now)
        if s.locked or not s.a then
            return
        elseif s.is_held then
            holds.bring_up(s, r, math.max(now, s.b), true)
            s.next_expiry = s.sum > 0 and s.first or nil
            return
        elseif s.next_expiry and now < s.next_expiry then
            return
        end
        local set, to = s.key .. ':h', string.format('%.0f', now)
        local expired = redis.call('ZRANGEBYSCORE', set, s.gone and '(' .. s.gone or '-inf', to)
        for i = 1, #expired do
            for at = 17, #expired[i], 24 do
                local amount, mark = struct.unpack('<dd', expired[i], at)
                holds.take_out(s, r, now, amount, mark, string.sub(expired[i], at + 16, at + 23))
            end
        end
        local following = redis.call('ZRANGEBYSCORE', set, '(' .. to, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        s.gone, s.next_expiry = to, tonumber(following[2] or nil)
        s.releases = following[2] and s.releases
    end

    function holds.take_released(s, r, now, cost, charge, forced)
        holds.give_back_expired(s, r, now)
        local releases, next_expiry = s.releases, s.next_expiry
        s.releases = nil
        local allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
            holds.take(s, r, now, cost, charge, forced)
        s.releases = releases
        if retry > 0 and next_expiry and not (s.locked and now < s.locked) then
            retry = math.min(retry, math.max(1, next_expiry - now))
        end
        return allowed, remaining, retry, reset, delay, used_now, a, b, c, older
    end

    -- What the end of a window says of it.
    function holds.born_with(born, is_odd)
        local first = string.byte(born)
        return string.char(first - first % 2 + (is_odd and 1 or 0)) .. string.sub(born, 2)
    end

    -- Until when a bucket with holds says more than that it is untouched.
    function holds.lasts_until(s, r)
        local all = math.max(s.known, s.a) + s.sum * r.window
        return math.max(s.last, s.b) + (all - all % r.limit) / r.limit + 1
    end

    -- ---- leases --------------------------------------------------------------------------------

    -- A rule with so much less room.
    function holds.less(r, sum)
        local is_bucket = r.algorithm == 4 or r.algorithm == 5
        return { algorithm = r.algorithm, limit = is_bucket and r.limit or r.limit - sum,
            burst = r.burst - sum, window = r.window, precision = r.precision, take = r.take,
            refund = r.refund }
    end

    -- So much was used at this time: it has happened.
    function holds.spend(s, r, at, amount)
        local _, a, b, c, older
        if s.is_held then
            holds.bring_up(s, r, math.max(at, s.b), s.releases)
            s.known = math.min(s.known + amount * r.window, 2^53 - 1)
        end
        _, _, _, _, _, _, a, b, c, older = r.take(s, r, at, amount, true, true)
        s.a, s.b, s.c, s.older = a, b, c, older or ''
    end

    -- Leases that have expired are used, each at its instant.
    function holds.end_leases(s, r, now)
        if s.leased == 0 or now < s.lease_first or r.limit == 0 then
            return
        end
        local set, to = s.key .. ':l', string.format('%.0f', now)
        local ended = redis.call('ZRANGEBYSCORE', set, s.lease_gone and '(' .. s.lease_gone or '-inf',
            to, 'WITHSCORES')
        for i = 1, #ended, 2 do
            local amount = struct.unpack('<d', ended[i], 17)
            s.leased = s.leased - amount
            holds.spend(s, r, tonumber(ended[i + 1]), amount)
        end
        local following = redis.call('ZRANGEBYSCORE', set, '(' .. to, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        s.lease_gone, s.lease_first, s.ends = to, tonumber(following[2] or s.lease_last), nil
        if not following[2] and s.leased > 0 then -- what is not found there was evicted
            holds.spend(s, r, now, s.leased)
            s.leased = 0
        end
    end

    -- The open leases by their expiry: amount, expiry, ...
    function holds.open_leases(s)
        if s.ends then
            return s.ends
        end
        local ends, evicted = {}, s.leased
        local open = redis.call('ZRANGEBYSCORE', s.key .. ':l', s.lease_gone and '(' .. s.lease_gone
            or '-inf', '+inf', 'WITHSCORES')
        for i = 1, #open, 2 do
            local amount = struct.unpack('<d', open[i], 17)
            evicted = evicted - amount
            ends[i], ends[i + 1] = amount, tonumber(open[i + 1])
        end
        if evicted > 0 then
            ends[#ends + 1], ends[#ends + 2] = evicted, s.lease_last
        end
        s.ends = ends
        return ends
    end

    -- In how many ms so much passes if nothing else happens, which is that leases are used when they
    -- expire. Without a cost: in how many the key is untouched.
    function holds.foresee(s, r, now, state, cost)
        local ends, sum, time = holds.open_leases(s), s.leased, now
        for i = 1, #ends + 1, 2 do
            local amount, expires = ends[i], ends[i + 1]
            if cost then
                local passes, _, retry = r.take(state, holds.less(r, sum), time, cost, false)
                if passes then
                    return time - now
                elseif retry ~= -1 and (not expires or time + retry < expires) then
                    return time + retry - now
                end
            end
            if expires then
                local _, a, b, c, older
                time, sum = math.max(time, expires), sum - amount
                _, _, _, _, _, _, a, b, c, older = r.take(state, r, time, amount, true, true)
                state = { a = a, b = b, c = c, older = older or '' }
            end
        end
        return time - now + select(4, r.take(state, r, time, 0, false))
    end

    function holds.take_leased(s, r, now, cost, charge, forced)
        if r.limit == 0 then
            return r.take(s, r, now, cost, charge, forced)
        end
        holds.end_leases(s, r, now)
        local sum, is_out = s.leased, s.locked and now < s.locked
        s.leased = nil
        local allowed, remaining, retry, reset, delay, used_now, a, b, c, older =
            holds.take(s, sum > 0 and holds.less(r, sum) or r, now, cost, charge, forced)
        s.leased = sum
        if sum == 0 or is_out then
            return allowed, remaining, retry, reset, delay, used_now, a, b, c, older
        end
        local most = (r.algorithm == 4 or r.algorithm == 5) and r.burst or r.limit
        if not allowed and cost <= most then
            retry = holds.foresee(s, r, used_now, { a = a, b = b, c = c, older = older or '' }, cost)
            if s.releases and s.next_expiry then
                retry = math.min(retry, math.max(1, s.next_expiry - now))
            end
        elseif allowed and not forced and r.algorithm == 5 then -- what is leased is in the queue, too
            local before = a + (sum - (charge and cost or 0)) * r.window
            delay = (before - before % r.limit) / r.limit + (before % r.limit > 0 and 1 or 0)
        end
        reset = holds.foresee(s, r, used_now, { a = a, b = b, c = c, older = older or '' })
        return allowed, remaining, retry, reset, delay, used_now, a, b, c, older
    end

    -- A lease of so much, with this name.
    function holds.lease(s, amount, expires, name)
        local set = s.key .. ':l'
        if not s.leased or s.leased == 0 then
            redis.call('DEL', set) -- one that outlived its key
            s.leased, s.lease_first, s.lease_last, s.lease_gone = 0, expires, expires, nil
        end
        redis.call('ZADD', set, string.format('%.0f', expires), name .. struct.pack('<d', amount))
        s.leased, s.was_leased, s.ends = s.leased + amount, true, nil
        s.lease_first = math.min(s.lease_first, expires)
        s.lease_last = math.max(s.lease_last, expires)
    end

    -- False: it is not open.
    function holds.settle_lease(s, r, now, held, used, name)
        local set, member = s.key .. ':l', name .. struct.pack('<d', held)
        local expires = s.leased and redis.call('ZSCORE', set, member)
        if not expires or tonumber(expires) <= now then
            return false
        end
        redis.call('ZREM', set, member)
        s.leased, s.ends = s.leased - held, nil
        if used > 0 then
            holds.spend(s, r, now, used)
        end
        local ends = holds.open_leases(s)
        s.lease_first, s.lease_last = ends[2] or 0, ends[#ends] or 0
        return true
    end

    -- After the key was written: it and its leases last equally long.
    function holds.keep_leases(s, expiry)
        if s.locked or not s.leased or s.leased == 0 then
            redis.call('DEL', s.key .. ':l')
            return
        end
        redis.call('PEXPIREAT', s.key .. ':l', expiry)
        if s.lease_gone then
            redis.call('ZREMRANGEBYSCORE', s.key .. ':l', '-inf', s.lease_gone)
        end
    end

    function holds.read_leased(key, value, r)
        local size = #value - 25 - string.byte(value, -1)
        local s = holds.read(key, size > 0 and string.sub(value, 1, size), r)
        s.leased, s.lease_first, s.lease_last = struct.unpack('<ddd', value, size + 1)
        s.stored, s.was_leased = true, true
        return s
    end

    function holds.value_of(s)
        if not s.leased or s.leased == 0 then
            return holds.value_without_leases(s)
        end
        local value = s.a and holds.value_without_leases(s) or ''
        local zeros = -(#value + 25) % 13
        return value .. struct.pack('<ddd', s.leased, s.lease_first, s.lease_last)
            .. string.rep('\0', zeros) .. string.char(zeros)
    end

    function holds.value_without_leases(s)
        local r = s.rule
        if r.algorithm == 6 then
            return struct.pack('<dddd', s.a, s.b, s.first, s.last)
        elseif s.is_held then
            return struct.pack('<ddddddc1', s.a, s.b, s.known, s.sum, s.first, s.last,
                s.releases and s.sum > 0 and 'R' or 'H')
        end
        return struct.pack(r.format, s.a, s.b, s.c) .. s.older
            .. (s.born and holds.born_with(s.born, s.releases) or '')
    end
end

local function read_state(key, value, r)
    local kind = value and #value % 13
    if kind == 3 then -- as most are
        local a, b = struct.unpack('<dd', value)
        return { key = key, rule = r, a = a, b = b, c = 0, older = '', stored = a, locked = false,
            expiry = false, is_given_back = false, born = false, is_held = false }
    end
    local s = { key = key, rule = r, a = nil, b = 0, c = 0, older = '', stored = nil,
        locked = false, expiry = false, is_given_back = false, born = false, is_held = false }
    if r.algorithm == 6 then
        s.sum, s.known, s.first, s.last = 0, 0, 0, 0
    end
    if kind == 11 or kind == 6 then
        if r.algorithm == 6 then
            s.a, s.b, s.first, s.last = struct.unpack('<dddd', value)
            s.is_held, s.was_held = true, true
        else
            local size = r.format == '<dd' and 16 or 24
            s.a, s.b, s.c = struct.unpack(r.format, value)
            if r.algorithm == 2 and kind == 11 then
                s.older = string.sub(value, 25)
            elseif #value > size then
                need_holds()
                s.older, s.born = string.sub(value, size + 1, -9), string.sub(value, -8)
                if string.byte(s.born) % 2 == 1 then
                    s.born, s.was_held = holds.born_with(s.born, false), true
                    s.releases = holds.take_released
                end
            end
        end
        s.stored = s.a
    elseif kind == 10 then
        need_holds()
        s.a, s.b, s.known, s.sum, s.first, s.last = struct.unpack('<dddddd', value)
        s.known_at, s.is_held, s.was_held, s.stored = s.b, true, true, s.a
        s.releases = string.sub(value, -1) == 'R' and holds.take_released or nil
    elseif kind == 0 then
        need_holds()
        holds.read = read_state
        return holds.read_leased(key, value, r)
    elseif value then
        s.locked, s.stored = struct.unpack('<d', value, 2), true
        if #value > 9 then
            s.a, s.b, s.c = struct.unpack(r.format, value, 10)
            s.older = r.algorithm == 2 and string.sub(value, 34) or ''
        end
    end
    return s
end

local function take(s, r, now, cost, charge, forced)
    if s.releases or s.leased then
        holds.take = take
        return (s.leased and holds.take_leased or s.releases)(s, r, now, cost, charge, forced)
    elseif not s.locked or r.limit == 0 then
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
