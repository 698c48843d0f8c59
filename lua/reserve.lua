-- reserve.lua - reservations: charges that are held until it is known what was used of them, and the
-- records that settle them. It comes behind limits.lua; judge.lua says what keys and rules are.
--
--     EVALSHA sha count-of-keys key... questions
--
-- ARGV[1] is a MessagePack array: questions until its end. Each begins with its verb, now (0: Redis's
-- clock) and the number of its record's key in KEYS. Amounts are their count, then name and amount
-- of each. Verbs:
--
--     6 reserve: fingerprint (zeros: a lease), ttl, longest ttl, bits (1: used at once, 2: given back when it
--                expires), token, about, tags, names, count of charges, each: key, place, shadow
--                (0 or 1), what it counts, cost, rule
--     7 settle:  bits (1: nothing was used, 2: the record is forgotten), amounts
--     8 grow:    token, amounts; with a token below 0 another slot has denied it: nothing is charged
--     9 extend:  ttl
--     10 undo:   token: what was charged with it, as if it had never been
--     11 point:  fingerprint, ttl, token, tag, the token of a pointer to replace or -1: the record is in
--                another slot
--     12 look:   token: is there a record that was made with another one?
--
-- The keys of charges that are settled, grown or extended are in the record, not in KEYS. They are
-- of the record's slot.
--
-- The reply is one string: little-endian, Redis's time in ms as a double, then for each question:
-- what became of it (below), bits (1: it was done before, 2: it had expired, 4: a pointer of another
-- question has its place, whose token and tag stand in for what follows), the doubles expires_in
-- and over, the number of charges and the lengths of `about` and `tags`, 2 bytes each, then for each
-- charge its place, as a byte, its decision as in judge.lua, and what is held of it or was until it
-- was settled, then `about` and `tags`.
--
--     0 done   1 denied   2 no such reservation   3 its id is of another question, or of no record
--     4 it is settled already   5 it has expired   6 its record is in the slot of the tag `over`
--     7 an amount that it does not count   8 a ttl that is too long
--
-- RULES (test_held.py in tests/e2e/ has tests of each)
--   V1  A record is written in the same call as its charges, and known for 10 minutes after it
--       expires, to the ms.
--   V2  What is given back comes out of the charge that was made, by its mark in the record, and only
--       if its key is the one that was charged: after a reset, an eviction or a lockout nothing is.
--   V3  Slots are free at the instant at which they expire.
--   V4  Each question is decided and written before the next. None is while its slot moves.
--
-- A RESERVATION OF SEVERAL SLOTS has a record in each, with the charges there. It is found by the tag of
-- its id. If one of its records has that tag, this is the main one; else that of the first charge is,
-- and there is a pointer to it. The main one has `about`, what a client is told of all charges, and the
-- tags of the others. If one slot denies, the others are undone. If that fails, what they hold
-- expires as used. To settle one, the main record is asked first, then the others; each knows
-- whether it was settled, so that a settlement that was cut short can be sent again. A pointer may be
-- known for longer than its record: it has the latest end that was asked for. So whether an id is
-- taken, the main record says, and a pointer to one that is forgotten is replaced.

need_holds()

local KNOWN = 600000
local POINTED = 60000 -- a pointer is known for longer: clocks of servers differ, the record decides
local NO_PRINT = string.rep('\0', 8) -- of a lease
local HOLDS_MOST = 65536 -- of a key; what is held beyond is known to be used at once

local asked, at = cmsgpack.unpack(ARGV[1]), 1
local time = redis.call('TIME')
local clock = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local reply = { struct.pack('<d', clock) }
local now, given, record_key, hold_name -- of the question at hand
local hold_end -- 'R' if what is held is given back when it expires

local function text_of(number)
    return string.format('%.0f', number)
end

-- When Redis may forget what is over at this time.
local function expiry_of(ends)
    return text_of(given > 0 and clock + (ends - now) + 3600000 or ends)
end

-- ---- rules ---------------------------------------------------------------------------------------

-- The rule at this place of a list, and where the next begins.
local function new_rule(words, from)
    local algorithm, limit = words[from], words[from + 1]
    local r = { algorithm = algorithm, limit = limit, window = words[from + 2],
        burst = words[from + 3], precision = words[from + 4], block = words[from + 5],
        take = take_bucket, refund = refund_bucket, format = '<dd' }
    if algorithm == 1 then
        r.take, r.refund = take_fixed_window, refund_windows
    elseif algorithm == 2 then
        r.take, r.refund, r.format = take_sliding_window, refund_sliding_window, '<ddd'
    elseif algorithm == 3 then
        r.take, r.refund, r.format = take_sliding_counter, refund_windows, '<ddd'
    elseif algorithm == 6 then
        r.take, r.refund = holds.take_slots, nil
    elseif starts_with_first[algorithm] then
        r.take, r.refund, r.format = take_first_window, refund_first_window, '<ddd'
    elseif algorithm ~= 4 and algorithm ~= 5 then
        error('there is no algorithm ' .. tostring(algorithm))
    end
    if limit == 0 then
        r.take, r.refund = take_none, nil
    end
    if algorithm == 33 then
        r.bounds = { unpack(words, from + 6, from + 10) }
    end
    return r, from + (r.bounds and 11 or 6)
end

-- ---- records -------------------------------------------------------------------------------------

-- Other programs may write to Redis, too, or another version of this. What comes behind trusts a record,
-- and an error would fail all questions of the call.
local function is_whole(n, least)
    return type(n) == 'number' and n >= least and n <= 2^53 and n % 1 == 0
end

local function is_list(list, most)
    return type(list) == 'table' and #list <= most
end

local function is_text(text) -- its length goes into 2 bytes of the reply
    return type(text) == 'string' and #text < 65536
end

local function is_sound_rule(rule)
    if not is_list(rule, 11) then
        return false
    end
    for i = 1, 11 do
        if rule[i] == nil and i > 6 and rule[1] ~= 33 then
            break
        elseif not is_whole(rule[i], 0) or i > 7 and rule[i] - rule[i - 1] < 3600000 then
            return false
        end
    end
    local algorithm, limit, window, burst, precision = unpack(rule)
    local is_level = algorithm >= 3 and algorithm <= 5
    return (algorithm >= 1 and algorithm <= 6 or algorithm == 17 or algorithm == 33)
        and (window > 0 or algorithm == 6 or limit == 0) and (precision > 0 or algorithm ~= 2)
        and (not is_level or limit * window <= 2^53 and burst * window <= 2^53)
end

local function is_sound_charge(c)
    return type(c) == 'table' and type(c.key) == 'string' and type(c.counts) == 'string'
        and string.find(c.key, '^rl:{%x%x%x%x}:') and is_sound_rule(c.rule)
        and is_whole(c.place, 0) and c.place < 256 and is_whole(c.held, 0) and is_whole(c.used, 0)
        and (c.gone == nil or is_whole(c.gone, 0))
end

local function is_sound(record)
    if type(record) ~= 'table' or type(record.print) ~= 'string' or not is_whole(record.expires, 0)
        or not is_whole(record.most_ttl, 0) or not is_list(record.names, 32)
        or not is_list(record.charges, 32) or not is_list(record.parts, 256)
        or not is_text(record.about or '') or not is_text(record.tags or '')
        or record.tag and not (is_whole(record.tag, 0) and is_whole(record.token, 0)) then
        return false
    end
    for i = 1, #record.charges do
        if not is_sound_charge(record.charges[i]) then
            return false
        end
    end
    for i = 1, #record.parts do
        local part = record.parts[i]
        if not is_list(part, 5) or not record.charges[part[1]] or not is_whole(part[2], 0)
            or not is_whole(part[3], 0) or not is_whole(part[4], 0) then
            return false
        end
    end
    return true
end

-- nil: there is none. false: there is something else, which stays as it is.
local function read_record()
    local value = redis.pcall('GET', record_key)
    local is_read, record
    hold_end = ''
    if not value then
        return nil
    elseif not value.err then
        is_read, record = pcall(cmsgpack.unpack, value)
    elseif not string.find(value.err, 'WRONGTYPE', 1, true) then
        error(value.err)
    end
    if not is_read or not is_sound(record) then
        return false
    end
    hold_end = record.gives_back and 'R' or ''
    return now < record.expires + KNOWN + (record.tag and POINTED or 0) and record or nil
end

local function write_record(record)
    local charges = record.charges
    record.charges = {}
    for i = 1, #charges do -- the other members are of this call alone
        local c = charges[i]
        record.charges[i] = { key = c.key, rule = c.rule, place = c.place, shadow = c.shadow,
            counts = c.counts, held = c.held, used = c.used, gone = c.gone }
    end
    redis.call('SET', record_key, cmsgpack.pack(record), 'PXAT',
        expiry_of(record.expires + KNOWN + (record.tag and POINTED or 0)))
    record.charges = charges
end

-- ---- keys ----------------------------------------------------------------------------------------

local function state_of(c)
    local r = c.r or new_rule(c.rule, 1)
    local s = read_state(c.key, redis.call('GET', c.key), r)
    c.r = r
    if r.bounds then -- of a record: time may have gone on beyond them
        while now >= r.bounds[5] do
            table.insert(r.bounds, 2 * r.bounds[5] - r.bounds[4])
            table.remove(r.bounds, 1)
        end
    end
    if s.locked and now >= s.locked then -- it is over: the key is untouched
        s.locked, s.a, s.b, s.c, s.older = false, nil, 0, 0, ''
    end
    if s.releases then
        holds.give_back_expired(s, r, now)
    end
    if s.leased then
        holds.end_leases(s, r, now)
    end
    return s, r
end

-- What is left of it has `ends`; it is as new if it has no `a`.
local function write_state(s, ends)
    local set = s.key .. ':h'
    local is_leased = s.leased and s.leased > 0
    if is_leased then
        ends = math.max(ends or 0, now + holds.foresee(s, s.rule, now, { a = s.a, b = s.b, c = s.c,
            older = s.older }))
    end
    if s.locked then
        redis.call('SET', s.key, struct.pack('<c1d', 'L', s.locked) .. (s.a and holds.value_of(s) or ''),
            'PXAT', expiry_of(s.locked))
    elseif not s.a and not is_leased then
        redis.call('DEL', s.key)
    else
        redis.call('SET', s.key, holds.value_of(s), 'PXAT', expiry_of(ends))
    end
    if s.was_leased then
        holds.keep_leases(s, is_leased and expiry_of(ends))
    end
    if s.was_held and not (s.a and (s.is_held or s.releases)) then
        redis.call('DEL', set)
    elseif s.was_held then
        if s.gone then
            redis.call('ZREMRANGEBYSCORE', set, '-inf', s.gone)
        end
        redis.call('PEXPIREAT', set, expiry_of(ends))
    end
end

local function tell_given_back(s)
    redis.call('PUBLISH', 'rl:news', 'back ' .. string.sub(s.key, -32))
end

-- ---- holds ---------------------------------------------------------------------------------------

local function holds_member(amount)
    return hold_name .. struct.pack('<d', amount) .. hold_end
end

-- What is to be given back of a window: false if this is none, or nothing is.
local function window_member(record, i)
    local algorithm, words = record.charges[i].rule[1], {}
    if not record.gives_back or record.settled or algorithm >= 4 and algorithm <= 6 then
        return false
    end
    for p = 1, #record.parts do
        local part = record.parts[p]
        if part[1] == i then
            words[#words + 1] = struct.pack('<dd', part[2], part[3]) .. part[5]
        end
    end
    return #words > 0 and hold_name .. table.concat(words)
end

local function replace_member(key, was, is, expires)
    if was then
        redis.call('ZREM', key .. ':h', was)
    end
    if is then
        redis.call('ZADD', key .. ':h', text_of(expires), is)
        local left = redis.call('PTTL', key) -- write_state() comes after the first charge
        if left > 0 then
            redis.call('PEXPIRE', key .. ':h', left)
        end
    end
end

-- Bring slots or a bucket up to now, and forget the holds that have expired.
local function drop_expired(s, r)
    local set, to = s.key .. ':h', nil
    if r.algorithm == 6 then
        s.b = select(8, holds.take_slots(s, r, now, 0, false))
        s.a = math.max(now, s.a or 0)
        to = text_of(s.a)
    else
        local used_now, used = select(6, take_bucket(s, r, now, 0, false))
        if s.is_held then
            holds.bring_up(s, r, used_now)
        else
            s.known, s.known_at, s.sum = used, used_now, 0
        end
        s.a, s.b = used, used_now
        to = text_of(used_now)
    end
    if s.is_held then
        redis.call('ZREMRANGEBYSCORE', set, '-inf', to)
    else
        redis.call('DEL', set) -- one that outlived its key
        s.is_held = true
    end
end

local function write_holds(s, r)
    local set = s.key .. ':h'
    local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
    local last = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')
    s.first, s.last = tonumber(first[2] or 0), tonumber(last[2] or 0)
    s.was_held = true
    if r.algorithm == 6 then
        if not first[2] then
            s.a = nil
        end
        write_state(s, s.last)
        return
    end
    s.is_held = s.sum > 0 or s.known > 0 and s.known ~= s.a
    s.releases = s.releases or hold_end == 'R' and holds.take_released
    if s.a == 0 and not s.is_held then
        s.a = nil
    end
    write_state(s, s.a and holds.lasts_until(s, r))
end

-- Change what this reservation holds of a key from one amount to another.
local function hold(s, was, is, expires)
    local set = s.key .. ':h'
    if was > 0 then
        redis.call('ZREM', set, holds_member(was))
    end
    if is > 0 then
        redis.call('ZADD', set, text_of(expires), holds_member(is))
    end
end

-- What it holds of the key, if it still does: without what was forgotten before the rest was grown.
local function amount_held(c)
    return c.held - (c.gone or 0)
end

local function has_hold(s, c)
    local amount = amount_held(c)
    return s.is_held and amount > 0 and redis.call('ZSCORE', s.key .. ':h', holds_member(amount))
end

-- ---- charging ------------------------------------------------------------------------------------

local function decision(c, allowed, remaining, retry, reset, delay)
    c.told = struct.pack('<BBddddd', c.place, allowed and 1 or 0, remaining, retry, reset, delay,
        c.held)
end

local function lock_out(c, s, r)
    s.locked = now + r.block
    redis.call('SET', s.key, struct.pack('<c1d', 'L', s.locked), 'PXAT', expiry_of(s.locked))
    redis.call('DEL', s.key .. ':h', s.key .. ':l')
    decision(c, false, 0, r.block, r.block, 0)
end

-- How each of them stands, and by how much the fullest is exceeded.
local function look_at_all(charges)
    local over = 0
    for i = 1, #charges do
        local c = charges[i]
        local s, r = state_of(c)
        local allowed, remaining, retry, reset, delay = take(s, r, now, 0, false,
            r.limit > 0 and r.algorithm ~= 6)
        if remaining < 0 then
            if not c.shadow then
                over = math.max(over, -remaining)
            end
            remaining = 0
        end
        decision(c, allowed, remaining, retry, reset, delay)
    end
    return over
end

-- What was charged, as parts of the record; `token` says by which question.
local function note(record, i, amount, mark, token, born)
    local c, parts = record.charges[i], record.parts
    c.held = c.held + amount
    for p = #parts, 1, -1 do
        if parts[p][1] == i then
            if parts[p][3] == mark and parts[p][4] == token and parts[p][5] == born then
                parts[p][2] = parts[p][2] + amount
                return
            end
            break
        end
    end
    if #parts < 256 then -- what is grown beyond is not given back
        parts[#parts + 1] = { i, amount, mark, token, born }
    end
end

-- Is it leased, and beside the state of its key? In a fixed window nothing ages before its end.
local function stands(record, r)
    return record.print == NO_PRINT and r.algorithm >= 2 and r.algorithm <= 5 and r.limit > 0
end

local function charge(record, i, took, token)
    local c, s, r = record.charges[i], took.s, took.r
    s.locked = false
    if stands(record, r) then
        holds.lease(s, c.cost, record.expires, hold_name)
        c.held = c.held + c.cost
        write_state(s)
        local _, remaining, _, reset = take(s, r, now, 0, false)
        decision(c, true, remaining, 0, reset, took.delay)
        return
    end
    if r.algorithm == 6 or r.algorithm == 4 or r.algorithm == 5 then
        drop_expired(s, r)
        if r.algorithm == 6 then
            s.b = s.b + c.cost
        else
            s.a = s.a + c.cost * r.window
        end
        if record.settled or r.algorithm ~= 6
            and redis.call('ZCARD', s.key .. ':h') >= HOLDS_MOST then
            s.known = math.min(s.known + c.cost * r.window, 2^53 - 1)
            c.gone = c.held > 0 and (c.gone or 0) + c.cost or nil
        else
            if c.held > 0 and not has_hold(s, c) then -- a lockout or a reset has forgotten it
                c.gone = c.held
            end
            s.sum = s.sum + c.cost
            hold(s, amount_held(c), amount_held(c) + c.cost, record.expires)
        end
        write_holds(s, r)
        note(record, i, c.cost, token > 0 and s.b or 0, token, '') -- to undo it alone
        return
    end
    local born = s.born
    if not s.a or s.a ~= took.a and (r.algorithm == 1 or r.algorithm > 15) then
        born = false
    end
    if not born then
        born = (not record.settled or token > 0) -- what is used at once may be undone, too
            and holds.born_with(string.sub(hold_name, 1, 8), false)
        s.releases = nil
    end
    s.a, s.b, s.c, s.older, s.born = took.a, took.b, took.c, took.older or '', born
    local was = window_member(record, i)
    note(record, i, c.cost, took.a, token, born or '')
    local is = window_member(record, i)
    if is then
        replace_member(s.key, was, is, record.expires)
        s.releases, s.was_held = holds.take_released, true
    end
    write_state(s, took.used_now + took.reset)
end

-- May all pass? Those in shadow are judged alone. Then they are charged, and noted in the record.
local function take_all(record, token)
    local charges, taken, allowed = record.charges, {}, true
    for i = 1, #charges do
        local c = charges[i]
        local s, r = state_of(c)
        local ok, remaining, retry, reset, delay, used_now, a, b, cc, older =
            take(s, r, now, c.cost, true)
        taken[i] = { s = s, r = r, ok = ok, retry = retry, reset = reset, delay = delay, used_now = used_now,
            a = a, b = b, c = cc, older = older }
        if r.algorithm == 6 and c.cost > 0 and ok then
            reset = math.max(reset, record.expires - used_now)
        end
        decision(c, ok, remaining, retry, reset, delay)
        allowed = allowed and (ok or c.shadow)
    end
    for i = 1, #charges do
        local c, took = charges[i], taken[i]
        if allowed and took.ok and c.cost > 0 then
            charge(record, i, took, token)
        elseif took.ok and not allowed then
            decision(c, take(took.s, took.r, now, c.cost, false))
        elseif not took.ok and took.retry ~= -1 and took.r.block > 0 and not took.s.locked then
            lock_out(c, took.s, took.r)
        end
    end
    return allowed
end

-- ---- settling ------------------------------------------------------------------------------------

-- Takes `back` out of a window: newest part first.
local function give_back(record, i, s, r, back, token)
    local parts = record.parts
    for p = #parts, 1, -1 do
        local part = parts[p]
        if part[1] == i and back > 0 and (not token or part[4] == token) then
            local amount = math.min(back, part[2])
            back = back - amount
            holds.take_out(s, r, now, amount, part[3], part[5]) -- V2
        end
    end
    local _, _, _, reset, _, used_now, a, b, c, older = take(s, r, now, 0, false)
    local is_new = reset == 0 or b == 0 and (r.algorithm == 1 or r.bounds
        or r.algorithm > 15 and not r.bounds and token) -- the charge that began the window never was
    s.a, s.b, s.c, s.older = a, b, c, older or ''
    if is_new then
        s.a = nil
    end
    write_state(s, used_now + reset)
    tell_given_back(s)
end

local function charge_excess(s, r, excess)
    local _, _, _, reset, _, used_now, a, b, c, older = take(s, r, now, excess, true, true)
    if s.is_held then
        drop_expired(s, r)
        s.a, s.known = a, math.min(s.known + excess * r.window, 2^53 - 1)
        write_holds(s, r)
        return
    end
    if s.a ~= a and (r.algorithm == 1 or r.algorithm > 15) then
        s.born = false
    end
    s.a, s.b, s.c, s.older = a, b, c, older or ''
    write_state(s, used_now + reset)
end

local function settle_hold(c, s, r, used)
    local amount = amount_held(c)
    used = math.max(0, used - (c.gone or 0))
    drop_expired(s, r)
    hold(s, amount, 0)
    if r.algorithm == 6 then
        s.b = s.b - amount
    else
        s.sum = s.sum - amount
        s.known = math.min(s.known + used * r.window, 2^53 - 1)
        s.a = math.min(s.a + math.max(0, used - amount) * r.window, s.known + s.sum * r.window)
        tell_given_back(s)
    end
    write_holds(s, r)
end

local function settle_charge(record, i, used)
    local c = record.charges[i]
    local s, r = state_of(c)
    local held = c.held
    c.used = used
    if record.gives_back and now >= record.expires then -- it was given back
        held = 0
    else
        replace_member(c.key, window_member(record, i))
    end
    if r.limit == 0 or s.locked and used <= held then
        return
    elseif stands(record, r) then
        if holds.settle_lease(s, r, now, c.held, used, hold_name) then
            local _, _, _, reset = take(s, r, now, 0, false)
            if reset == 0 and not s.is_held then
                s.a = nil
            end
            write_state(s, s.is_held and holds.lasts_until(s, r) or now + reset)
            tell_given_back(s)
        end
    elseif (r.algorithm == 6 or r.algorithm == 4 or r.algorithm == 5)
        and now < record.expires and has_hold(s, c) then
        settle_hold(c, s, r, used)
    elseif used > held then
        if r.algorithm ~= 6 then
            charge_excess(s, r, used - held)
        end
    elseif used < c.held and now < record.expires and r.refund and s.a
        and r.algorithm ~= 4 and r.algorithm ~= 5 then
        give_back(record, i, s, r, c.held - used)
    end
end

-- What a question says of amounts, by name; false: one that the reservation does not count.
local function read_amounts(record)
    local named, is_known = {}, true
    for i = 1, asked[at] do
        local name, is_found = asked[at + 2 * i - 1], #record.names == 0
        for n = 1, #record.names do
            is_found = is_found or record.names[n] == name
        end
        named[name], is_known = asked[at + 2 * i], is_known and is_found
    end
    return is_known and named
end

local function used_of(c, is_release, named)
    return is_release and 0 or named[c.counts] or c.held
end

-- ---- the questions -------------------------------------------------------------------------------
-- Each returns what became of it, bits, expires_in, over, and the record whose charges are told.

local function reserve()
    local fingerprint, ttl, most_ttl, bits, token, about, tags, names =
        unpack(asked, at, at + 7)
    local record = { print = fingerprint, expires = now + ttl, most_ttl = most_ttl, about = about,
        tags = tags, names = {}, charges = {}, parts = {}, settled = bits % 2 == 1, token = token,
        gives_back = bits == 2 or nil }
    local known = read_record()
    at = at + 8
    if known and now >= known.expires + KNOWN then
        known = nil
    end
    for i = 1, names do
        record.names[i], at = asked[at], at + 1
    end
    local count = asked[at]
    at = at + 1
    for i = 1, count do
        local c = { key = KEYS[asked[at]], place = asked[at + 1], shadow = asked[at + 2] == 1,
            counts = asked[at + 3], cost = asked[at + 4], held = 0, used = 0 }
        local r, after = new_rule(asked, at + 5)
        c.rule, c.r = { unpack(asked, at + 5, after - 1) }, r
        record.charges[i], at = c, after
    end
    if not known then
        hold_end = record.gives_back and 'R' or ''
    end
    if known == false or known and (known.print ~= fingerprint or known.tag) then
        return 3, 0, 0, 0
    elseif known then
        look_at_all(known.charges)
        return 0, 1, known.expires - now, 0, known
    elseif not take_all(record, token) then
        return 1, 0, 0, 0, record
    end
    for i = 1, record.settled and count or 0 do
        record.charges[i].used = record.charges[i].held
    end
    write_record(record)
    return 0, 0, ttl, 0, record
end

local function settle(record)
    local is_release, forgets, is_same, bits = asked[at] % 2 == 1, asked[at] > 1, true, 0
    at = at + 1
    local named = read_amounts(record)
    if not named then
        return 7, 0, 0, 0
    end
    for i = 1, record.settled and #record.charges or 0 do
        local c = record.charges[i]
        is_same = is_same and c.used == used_of(c, is_release, named)
    end
    if not is_same then
        return 4, 0, 0, 0
    elseif record.settled then
        look_at_all(record.charges)
        return 0, 1, record.expires - now, 0, record
    end
    for i = 1, #record.charges do
        settle_charge(record, i, used_of(record.charges[i], is_release, named))
    end
    if now >= record.expires then
        bits = 2
    end
    record.settled = true
    if forgets then
        redis.call('DEL', record_key)
    else
        write_record(record)
    end
    return 0, bits, record.expires - now, look_at_all(record.charges), record
end

local function grow(record)
    local token = asked[at]
    at = at + 1
    local named = read_amounts(record)
    if not named then
        return 7, 0, 0, 0
    end
    for i = 1, #record.charges do
        local c = record.charges[i]
        c.cost = named[c.counts] or 0
        if token < 0 then
            local s, r = state_of(c)
            local ok, remaining, retry, reset, delay = take(s, r, now, c.cost, false)
            decision(c, ok, remaining, retry, reset, delay)
            if not ok and retry ~= -1 and r.block > 0 and not s.locked then
                lock_out(c, s, r)
            end
        end
    end
    if token < 0 then
        return 0, 0, record.expires - now, 0, record
    end
    local allowed = take_all(record, token)
    if allowed then
        write_record(record)
    end
    return allowed and 0 or 1, 0, record.expires - now, 0, record
end

local function extend(record)
    local ttl = asked[at]
    local was, is = record.expires, math.max(record.expires, now + ttl)
    if ttl > record.most_ttl then
        return 8, 0, 0, 0
    end
    record.expires = is
    for i = 1, is > was and #record.charges or 0 do
        local c = record.charges[i]
        local s, r = state_of(c)
        if not s.locked and has_hold(s, c) then
            drop_expired(s, r)
            hold(s, 0, amount_held(c), is)
            write_holds(s, r)
        elseif not s.locked and s.a then
            replace_member(c.key, nil, window_member(record, i), is)
        end
    end
    write_record(record)
    look_at_all(record.charges)
    return 0, 0, is - now, 0, record
end

-- Takes back what was charged by the question with this token: the whole reservation, or what it
-- was grown by.
local function undo(record)
    local token, parts, left, gone = asked[at], record.parts, {}, {}
    for i = 1, #record.charges do
        local c, back, mark = record.charges[i], 0, nil
        for p = 1, #parts do
            if parts[p][1] == i and parts[p][4] == token then
                back, mark = back + parts[p][2], parts[p][3]
            end
        end
        local s, r = state_of(c)
        if back == 0 or s.locked or not s.a then
        elseif has_hold(s, c) then
            local is_last = s.b == mark -- nothing has drained before a later charge
            drop_expired(s, r)
            hold(s, amount_held(c), amount_held(c) - back, record.expires)
            if r.algorithm == 6 then
                s.b = s.b - back
            else
                s.sum = s.sum - back
                s.a = math.min(is_last and math.max(0, s.a - back * r.window) or s.a,
                    s.known + s.sum * r.window)
                tell_given_back(s)
            end
            write_holds(s, r)
        elseif record.settled and (r.algorithm == 4 or r.algorithm == 5) then -- known at once
            local less = s.b == mark and back * r.window or 0
            drop_expired(s, r)
            s.a, s.known = math.max(0, s.a - less), math.max(0, s.known - less)
            tell_given_back(s)
            write_holds(s, r)
        elseif r.algorithm < 4 or r.algorithm > 15 then
            replace_member(c.key, window_member(record, i))
            give_back(record, i, s, r, back, token)
        end
        c.held = c.held - back
        gone[i] = back > 0
        s, r = state_of(c)
        decision(c, take(s, r, now, back, false))
    end
    for p = 1, #parts do
        if parts[p][4] ~= token then
            left[#left + 1] = parts[p]
        end
    end
    record.parts = left
    for i = 1, record.token ~= token and #record.charges or 0 do
        if gone[i] then
            replace_member(record.charges[i].key, nil, window_member(record, i), record.expires)
        end
    end
    if record.token == token then
        redis.call('DEL', record_key)
    else
        write_record(record)
    end
    return 0, 0, 0, 0, record
end

-- The record of this id is in the slot of another tag.
local function point()
    local fingerprint, ttl, token, tag, stale = unpack(asked, at, at + 4)
    local known, expires = read_record(), now + ttl
    at = at + 5
    if known and (now >= known.expires + KNOWN or known.tag and known.token == stale) then
        known = nil
    end
    if known == false or known and not known.tag then
        return 3, 0, 0, 0
    elseif known and known.print ~= fingerprint then
        return 3, 4, known.token, known.tag
    elseif not known then
        write_record({ print = fingerprint, expires = expires, tag = tag, token = token,
            most_ttl = 86400000, settled = false, names = {}, charges = {}, parts = {} })
    elseif known.expires < expires then
        known.expires = expires
        write_record(known)
    end
    return 0, known and 1 or 0, 0, 0
end

-- The place behind a question about a record that is not there.
local function skip(verb)
    local count = verb == 7 and 1 or verb == 8 and 1
    at = at + (count and count + 1 + 2 * asked[at + count] or 1)
end

local is_at_rest = false

while at <= #asked do
    local verb, begin = asked[at], nil
    given, record_key = asked[at + 1], KEYS[asked[at + 2]]
    now, hold_name = given > 0 and given or clock, nil
    hold_name = string.gsub(string.sub(record_key, -32), '..', function(two)
        return string.char(tonumber(two, 16))
    end)
    at = at + 3
    begin = at
    local outcome, bits, expires_in, over, record
    -- While a slot of a cluster moves, it is an error to ask for a key that is not here, even for one
    -- that this call has just deleted. A call that ends half way is asked again, and would do that
    -- half twice. So none begins: two keys that are nowhere are an error on both of the slot's nodes.
    -- A pointer is one key alone, and may be written twice.
    if verb ~= 11 and not is_at_rest then
        redis.call('EXISTS', record_key .. ':none', record_key .. ':neither')
        is_at_rest = true
    end
    if verb == 6 then
        outcome, bits, expires_in, over, record = reserve()
    elseif verb == 11 then
        outcome, bits, expires_in, over = point()
    elseif verb == 12 then
        local other = read_record()
        outcome = other and other.token ~= asked[at] and 0 or 2
        at = at + 1
    elseif verb >= 7 and verb <= 10 then
        record = read_record()
        if not record then
            outcome = 2
        elseif record.tag and verb < 10 then
            if verb == 9 and now < record.expires + POINTED and record.expires < now + asked[at] then
                record.expires = now + asked[at]
                write_record(record)
            end
            outcome, over, record = 6, record.tag, nil
        elseif verb == 7 then
            outcome, bits, expires_in, over, record = settle(record)
        elseif verb == 10 then
            outcome, bits, expires_in, over, record = undo(record)
        elseif record.settled then
            outcome, record = 4, nil
        elseif now >= record.expires then
            outcome, record = 5, nil
        elseif verb == 8 then
            outcome, bits, expires_in, over, record = grow(record)
        else
            outcome, bits, expires_in, over, record = extend(record)
        end
        at = begin
        skip(verb)
    else -- never treat it as another verb
        return redis.error_reply('ERR there is no verb ' .. tostring(verb))
    end
    local charges = record and record.charges or {}
    local about, tags = record and record.about or '', record and record.tags or ''
    reply[#reply + 1] = struct.pack('<BBddHHH', outcome, bits or 0, expires_in or 0, over or 0,
        #charges, #about, #tags)
    for i = 1, #charges do
        reply[#reply + 1] = charges[i].told
    end
    reply[#reply + 1] = about .. tags
end
return table.concat(reply)
