-- 0002_judge.sql - many decisions in one call: the arithmetic of src/limit/ in PL/pgSQL.
BEGIN;
SET LOCAL client_min_messages = warning;

-- GCRA in nanoseconds, as in src/limit/cell.c. Long intervals need more than 64 bits of ns.
CREATE OR REPLACE FUNCTION weir.take_cell(
    at bigint, used bigint, capacity bigint, "interval" bigint, extra bigint, now bigint,
    cost bigint, charging boolean,
    OUT allowed boolean, OUT remaining bigint, OUT retry_after bigint, OUT reset_after bigint,
    OUT next_at bigint, OUT next_used bigint, OUT expires bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms CONSTANT numeric := 1000000;
    now_ns numeric := now * ms;
    due numeric := greatest(at * ms + used, now_ns);
    increment numeric := "interval"::numeric * cost;
    most numeric := "interval"::numeric * capacity;
    ahead numeric := due + increment - most - now_ns;
    then_ns numeric := CASE WHEN ahead > 0 OR NOT charging THEN due ELSE due + increment END;
    full_in numeric := then_ns - now_ns;
BEGIN
    allowed := ahead <= 0;
    retry_after := CASE WHEN allowed THEN 0 WHEN increment <= most THEN div(ahead, ms) ELSE -1 END;
    IF most - full_in <= -"interval" THEN
        remaining := 0;
    ELSIF "interval" >= 1000 THEN
        remaining := div(div(most - full_in, 1000), "interval" / 1000);
    ELSE -- a float division by 0, converted to an integer
        remaining := CASE sign(div(most - full_in, 1000)) WHEN 1 THEN 9223372036854775807
                                                          WHEN 0 THEN 0
                                                          ELSE -9223372036854775808 END;
    END IF;
    reset_after := div(full_in + extra, ms);
    next_at := CASE WHEN then_ns > 0 THEN div(then_ns, ms) ELSE 0 END;
    next_used := CASE WHEN then_ns > 0 THEN mod(then_ns, ms) ELSE 0 END;
    expires := CASE WHEN then_ns > now_ns THEN next_at + sign(next_used)::bigint ELSE now END;
END $$;

-- A bucket with holds at a later time: what is known to be used, and the sum of the holds that are
-- still open. Holds that expire on the way become known one after the other, each at its instant.
-- `last` is the last expiry of a hold. As src/limit/bucket.c.
CREATE OR REPLACE FUNCTION weir.bring_up(
    p_key uuid, max bigint, win bigint, at bigint, later bigint,
    INOUT known bigint, INOUT held bigint, OUT last bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    most CONSTANT bigint := 1::bigint << 60;
    expired record;
BEGIN
    FOR expired IN SELECT h.expires, sum(h.amount)::bigint AS amount FROM weir.holds h
                    WHERE h.key = p_key AND h.expires > at AND h.expires <= later
                      AND h.mark <> -1
                    GROUP BY h.expires ORDER BY h.expires LOOP
        known := CASE WHEN expired.expires - at > known / max THEN 0
                      ELSE known - (expired.expires - at) * max END;
        known := least(known + least(expired.amount, most / win) * win, most);
        held := held - expired.amount;
        at := expired.expires;
    END LOOP;
    known := CASE WHEN later - at > known / max THEN 0 ELSE known - (later - at) * max END;
    last := coalesce((SELECT h.expires FROM weir.holds h WHERE h.key = p_key AND h.mark <> -1
                       ORDER BY h.expires DESC LIMIT 1), 0);
END $$;

-- LEASES. What is leased of a log, a counter or a bucket is beside its state and stands still: it is
-- counted in full until it is settled, and counted as used from then on, or from the instant at which
-- it expires. Why no limit is exceeded: see lua/limits.lua. A lease is a row of weir.holds with the
-- mark -1; a key that has some has a `locked_until` below 0. Lists of leases are amount, expiry, ...,
-- by expiry. They are ended in memory by each call that looks at the key, and removed when its row is written.

-- A log (2), a counter (3) or a bucket (4) without holds, as weir.judge() has it: may so much pass? It
-- is charged only if it has happened.
CREATE OR REPLACE FUNCTION weir.take_plain(
    kind integer, max bigint, win bigint, burst bigint, width bigint, now bigint, cost bigint,
    forced boolean, INOUT at bigint, INOUT used bigint, INOUT other bigint, INOUT oldest bigint,
    INOUT log bigint[], OUT ok boolean, OUT wait bigint, OUT reset bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT bigint := (1::bigint << 53) - 1;
    life CONSTANT bigint := width - 1 + win;
    t bigint := greatest(now, at);
    gone integer := 0;
    live bigint;
    lack bigint;
    ends bigint;
BEGIN
    IF kind = 4 THEN
        used := CASE WHEN t - at > used / max THEN 0 ELSE used - (t - at) * max END;
        at := t;
        ok := used + (cost - burst) * win <= 0 OR cost = 0;
        wait := CASE WHEN ok THEN 0 WHEN cost > burst THEN -1
                     ELSE (used + (cost - burst) * win + max - 1) / max END;
        IF forced THEN
            used := greatest(used, least(used + least(cost, most / win + 1) * win, most));
        END IF;
        reset := (used + max - 1) / max;
    ELSIF kind = 3 THEN
        ends := t - t % win;
        IF at <> ends THEN
            other := CASE WHEN at = ends - win THEN used ELSE 0 END;
            used := 0;
            at := ends;
        END IF;
        ends := at + win - t;
        ok := cost = 0 OR cost <= max AND cost * win <= (max - used) * win - other * ends;
        lack := max - used - cost;
        wait := CASE WHEN ok THEN 0 WHEN cost > max THEN -1
                     WHEN lack >= 0 THEN ends - lack * win / other
                     ELSE ends + win - (max - cost) * win / used END;
        IF forced THEN
            used := greatest(used, least(used + cost, most / win));
        END IF;
        reset := CASE WHEN used > 0 THEN ends + win WHEN other > 0 THEN ends ELSE 0 END;
    ELSE
        IF used > 0 AND at + life <= t THEN
            used := 0;
        END IF;
        IF used = 0 THEN
            t := now;
            log := NULL;
            other := 0;
        END IF;
        WHILE log[gone + 1] + life <= t LOOP
            used := used - log[gone + 2];
            gone := gone + 2;
        END LOOP;
        IF gone > 0 THEN
            log := CASE WHEN gone < cardinality(log) THEN log[gone + 1:] END;
        END IF;
        ok := cost = 0 OR used + cost <= max;
        wait := CASE WHEN ok THEN 0 ELSE -1 END;
        IF NOT ok AND cost <= max THEN
            lack := used + cost - max;
            gone := 0;
            WHILE lack > 0 LOOP
                ends := coalesce(log[gone + 1], at);
                lack := lack - coalesce(log[gone + 2], lack);
                gone := gone + 2;
            END LOOP;
            wait := ends + life - t;
        END IF;
        live := greatest(0, least(cost, most - used));
        IF forced AND live > 0 THEN
            ends := t - t % width;
            IF used > 0 AND at >= ends THEN
                other := other + live;
            ELSE
                log := CASE WHEN used > 0 THEN log || ARRAY[at, other] END;
                at := ends;
                other := live;
            END IF;
            used := used + live;
        END IF;
        oldest := coalesce(log[1], at);
        reset := CASE WHEN used > 0 THEN at + life - t ELSE 0 END;
    END IF;
END $$;

-- Leases that have expired by now are used, each at its instant. `leases` are those that are open then,
-- `leased` is their sum. A bucket with holds has what is known to be used in `other`.
CREATE OR REPLACE FUNCTION weir.end_leases(
    p_key uuid, kind integer, max bigint, win bigint, burst bigint, width bigint, is_held boolean,
    now bigint, INOUT at bigint, INOUT used bigint, INOUT other bigint, INOUT oldest bigint,
    INOUT log bigint[], INOUT leases bigint[], OUT leased bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    up record;
    said record;
    ended integer := 0;
BEGIN
    leased := 0;
    FOR i IN 1..coalesce(cardinality(leases), 0) / 2 LOOP
        IF leases[2 * i] > now THEN
            leased := leased + leases[2 * i - 1];
            CONTINUE;
        END IF;
        ended := 2 * i;
        IF is_held THEN
            up := weir.bring_up(p_key, max, win, at, greatest(leases[2 * i], at), other, oldest);
        END IF;
        said := weir.take_plain(kind, max, win, burst, width, leases[2 * i], leases[2 * i - 1],
                                true, at, used, other, oldest, log);
        at := said.at;
        used := said.used;
        other := said.other;
        oldest := said.oldest;
        log := said.log;
        IF is_held THEN
            other := least(up.known + least(leases[2 * i - 1], (1::bigint << 53) / win) * win,
                           1::bigint << 60);
            oldest := up.held;
        END IF;
    END LOOP;
    leases := leases[ended + 1:];
END $$;

-- In how many ms so much passes if nothing else happens, which is that leases are used when they
-- expire. Without a cost: in how many the key is untouched.
CREATE OR REPLACE FUNCTION weir.foresee(
    kind integer, max bigint, win bigint, burst bigint, width bigint, now bigint, cost bigint,
    at bigint, used bigint, other bigint, oldest bigint, log bigint[], leases bigint[])
RETURNS bigint LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count CONSTANT integer := coalesce(cardinality(leases), 0) / 2;
    leased bigint := 0;
    t bigint := now;
    said record;
BEGIN
    FOR i IN 1..count LOOP
        leased := leased + leases[2 * i - 1];
    END LOOP;
    FOR i IN 1..count + 1 LOOP
        IF cost IS NOT NULL THEN
            said := weir.take_plain(kind, CASE WHEN kind = 4 THEN max ELSE max - leased END, win,
                                    burst - leased, width, t, cost, false, at, used, other, oldest,
                                    log);
            IF said.ok THEN
                RETURN t - now;
            ELSIF said.wait <> -1 AND (i > count OR t + said.wait < leases[2 * i]) THEN
                RETURN t + said.wait - now;
            END IF;
        END IF;
        IF i <= count THEN
            t := greatest(t, leases[2 * i]);
            leased := leased - leases[2 * i - 1];
            said := weir.take_plain(kind, max, win, burst, width, t, leases[2 * i - 1], true, at,
                                    used, other, oldest, log);
            at := said.at;
            used := said.used;
            other := said.other;
            oldest := said.oldest;
            log := said.log;
        END IF;
    END LOOP;
    said := weir.take_plain(kind, max, win, burst, width, t, 0, false, at, used, other, oldest, log);
    RETURN t + said.reset - now;
END $$;

-- A list with one more lease.
CREATE OR REPLACE FUNCTION weir.with_lease(leases bigint[], amount bigint, expires bigint)
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place integer := 0;
BEGIN
    WHILE leases[place + 2] <= expires LOOP
        place := place + 2;
    END LOOP;
    RETURN leases[:place] || ARRAY[amount, expires] || leases[place + 1:];
END $$;

-- The row of a key and its leases, of one instant.
CREATE OR REPLACE FUNCTION weir.leased_state(
    p_key uuid, OUT version xid, OUT place tid, OUT at bigint, OUT used bigint, OUT other bigint,
    OUT oldest bigint, OUT log bigint[], OUT until bigint, OUT leases bigint[])
LANGUAGE sql STABLE AS $$
    SELECT r.xmin, r.ctid, r.at, r.used, r.other, r.oldest, r.log, r.locked_until,
           (SELECT array_agg(u.number ORDER BY h.expires, h.reservation, h.part, u.n)
              FROM weir.holds h
             CROSS JOIN unnest(ARRAY[h.amount, h.expires]) WITH ORDINALITY AS u (number, n)
             WHERE h.key = r.key AND h.mark = -1)
      FROM weir.states r WHERE r.key = p_key
$$;

-- The slots of a key at a later time: how many are taken, the last expiry, and when so many more
-- than `room` are free again. As src/limit/slots.c.
CREATE OR REPLACE FUNCTION weir.taken(
    p_key uuid, at bigint, later bigint, room bigint, INOUT used bigint, OUT last bigint,
    OUT free_at bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    open record;
    excess bigint;
BEGIN
    used := greatest(0, used - coalesce((
        SELECT sum(h.amount) FROM weir.holds h
         WHERE h.key = p_key AND h.expires > at AND h.expires <= later), 0));
    last := later;
    free_at := later;
    IF used = 0 THEN
        RETURN;
    END IF;
    last := coalesce((SELECT h.expires FROM weir.holds h WHERE h.key = p_key AND h.expires > later
                       ORDER BY h.expires DESC LIMIT 1), later);
    excess := used - room;
    IF excess > 0 THEN
        FOR open IN SELECT h.expires, h.amount FROM weir.holds h
                     WHERE h.key = p_key AND h.expires > later ORDER BY h.expires LOOP
            free_at := open.expires;
            excess := excess - open.amount;
            EXIT WHEN excess <= 0;
        END LOOP;
    END IF;
END $$;

DROP FUNCTION IF EXISTS weir.judge(uuid[], integer[], bigint[], bigint[], bigint[], bigint[],
    integer[], integer[], integer[], integer[], bigint[], bigint[]); -- without blocks
DROP FUNCTION IF EXISTS weir.judge(uuid[], integer[], bigint[], bigint[], bigint[], bigint[],
    integer[], integer[], integer[], integer[], bigint[], bigint[], bigint[], bigint[]); -- or holds
DROP FUNCTION IF EXISTS weir.guard(uuid); -- advisory locks were used once: every role can take them

-- Decide many questions in one call, in order: each sees what the ones before it charged.
--
-- A question has one charge or more; a charge is a rule on a key. If all charges of a question
-- pass, all are charged. If one is denied, none is charged, and the others are reported unchanged.
--
--   keys         distinct keys, ascending
--   algorithms   of each rule: 1 fixed_window, 2 sliding_window, 3 sliding_counter,
--                4 token_bucket, 5 leaky_bucket, 6 concurrency, 15 cell; and
--                17: a fixed window that begins with the first charge in it
--                33: one of the calendar
--                49, 65, 81: as 17, and a charge moves its end: each one; each that leaves more
--                than the limit; or so, and twice as far each time
--   limits, windows, bursts, precisions
--                of the same rules. Complete and within bounds, as rule_check() leaves them
--   slots, rules of each charge: index into `keys`, and index of its rule; from 1
--   counts       of each question: its number of charges; NULL: one each
--   verbs        of each question: 0 check, 1 peek, 2 refund, 3 reset, 5 charge; NULL: check. Or a
--                reserve: 6, or a lease: 7
--   costs        of each charge; NULL: 1. A charge of cost 0 passes and changes nothing
--   nows         of each question, in ms; array or element NULL: the database clock
--
--   blocks       of each rule: for how long a denial locks its key out; NULL: 0, it does not
--   bounds       of each rule: five boundaries around now, of a window of the calendar. Which
--                window it is, the time says
--   held_until   when a reserve's holds expire
--
-- The answer has an element for each charge. retry_after -1: never. `clock` is the database time.
--
-- A charge (verb 5) has happened: it is counted whatever the limit says. Its `remaining` is below 0
-- by how much the limit is exceeded. Counts stop below 2^53, as in src/limit/.
--
-- A reserve (verb 6) is a check; what passes is held. weir.judge_reservations() asks for it, one
-- question in a call, and adds the holds to weir.holds. Only a reserve takes slots of `concurrency`.
-- A bucket with holds goes on keeping what is known to be used, until that has drained. A lease
-- (verb 7) is a reserve, but that what is leased of a log, a counter or a bucket stands still, see above.
--
-- A refund or reset sends NOTIFY weir with 'key ' and the key.
--
-- HOW. Optimistic locking: states are read without a lock and judged. If nothing has to be written,
-- that is the answer. So a denial and a peek cost no lock, no transaction id and no disk write.
-- Otherwise the rows that the answer depends on are locked in key order, or inserted. If they did
-- not change since they were read, the answer stands. If they changed, the questions that depend on
-- them are read and judged again under the lock. For hot keys (many questions on few keys) the lock
-- is taken as soon as one question passes.
--
-- RULES (tests/sql has tests of each)
--   Q1  Concurrent calls never admit more than the same calls one after another.
--   Q2  Calls never deadlock: rows are locked and inserted in key order.
--   Q3  A missing key is locked by inserting an unused row. No other lock is taken. Advisory locks
--       are not used: every role that can connect could take them.
--   Q4  Time never goes back before the time in a state: a clock that steps back mints nothing.
--
-- WHY NOT one function an algorithm: a call in PL/pgSQL for each charge would make a batch of 256
-- take 7 to 8 % longer.
CREATE OR REPLACE FUNCTION weir.judge(
    keys uuid[],
    algorithms integer[], limits bigint[], windows bigint[], bursts bigint[], precisions bigint[],
    slots integer[], rules integer[],
    counts integer[] DEFAULT NULL, verbs integer[] DEFAULT NULL, costs bigint[] DEFAULT NULL,
    nows bigint[] DEFAULT NULL, blocks bigint[] DEFAULT NULL,
    bounds bigint[] DEFAULT NULL, held_until bigint DEFAULT NULL,
    OUT allowed boolean[], OUT remaining bigint[], OUT retry_after bigint[],
    OUT reset_after bigint[], OUT delay bigint[], OUT clock bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- One generic plan that uses the index, even while the table is small.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    -- ms after expiry; weir.tidy() removes a row after twice this time.
    may_go_after CONSTANT bigint := 30000;
    key_count CONSTANT integer := cardinality(keys);
    charge_count CONSTANT integer := cardinality(slots);
    question_count CONSTANT integer := coalesce(cardinality(counts), cardinality(slots));
    -- Many questions on few keys: optimistic locking would fail, so lock early.
    is_hot CONSTANT boolean := charge_count >= 16 AND charge_count >= 4 * key_count;

    -- states, by slot
    versions xid[];
    places tid[];
    ats bigint[];
    useds bigint[];
    others bigint[];
    oldests bigint[];
    logs weir.log[];
    untils bigint[];        -- locked out until then; NULL: not locked out; 0: a bucket with holds;
                            -- -1: leases; -2: both
    leases weir.log[];      -- of those with leases
    ended bigint[];         -- until when they have ended
    first_end bigint;       -- the earliest expiry of the rows that were read
    expiries bigint[];      -- new expiry of rows to be written; NULL: not written
    involved boolean[];     -- not changed, but a written row may depend on it
    found uuid[];           -- the keys that have a row
    missing integer;        -- how many keys have no row
    changed integer;        -- slots
    forgotten uuid[];       -- the keys whose holds are over: reset, or locked out
    none CONSTANT bigint[] := array_fill(NULL::bigint, ARRAY[key_count]);
    log bigint[];           -- log of the slot `logged`
    logged integer;
    log_changed boolean;

    settled boolean[] := '{}'; -- questions that depend on no written row
    need uuid[];
    made uuid[];            -- keys in `need` that had no row
    expected xid[];
    locked xid[];
    is_bold boolean;
    to_write integer;
    written integer;

    -- the question
    is_plain CONSTANT boolean :=
        counts IS NULL AND verbs IS NULL AND costs IS NULL AND nows IS NULL;
    first integer;
    last integer;
    verb integer := 0;
    asked bigint := 1;
    cost bigint := 1;
    now bigint;
    passes boolean;
    charging boolean := true;
    -- the charge, and its rule
    i integer;
    s integer;
    rule integer := 0;
    kind integer;           -- 0 a limit of 0, 1 and from 17 fixed_window, 2 sliding_window,
                            -- 3 sliding_counter, 4 one of the buckets, 6 concurrency, 15 cell
    is_leaky boolean;
    max bigint;
    win bigint;
    burst bigint;
    width bigint;
    life bigint;
    -- its state
    at bigint;
    used bigint;
    other bigint;
    oldest bigint;
    live bigint;
    gone integer;           -- elements of the log
    is_out boolean := false; -- it is locked out
    is_held boolean := false; -- a bucket with holds: `other` is known to be used, `oldest` is held
    leased bigint := 0;     -- of it
    open bigint[];          -- its leases
    is_lease boolean := false; -- the question is for one, and the key's states age
    last_hold bigint;       -- when the last of them expires
    -- the result
    t bigint;               -- the time used for the decision
    ends bigint;
    lack bigint;
    ok boolean;
    writes boolean := true;
    forced boolean := false; -- a charge
    holds boolean := false; -- a reserve
    most CONSTANT bigint := (1::bigint << 53) - 1;
    wrote boolean;          -- the question has changed a state
    rest bigint;
    wait bigint;
    reset bigint;
    cell record;
    stood record;           -- a state with leases
BEGIN
    allowed := array_fill(true, ARRAY[charge_count]);
    remaining := array_fill(0::bigint, ARRAY[charge_count]);
    retry_after := remaining;
    reset_after := remaining;
    delay := remaining;

    FOR pass IN 1..2 LOOP
        SELECT array_agg(q.key), array_agg(q.xmin), array_agg(q.ctid), array_agg(q.at),
               array_agg(q.used), array_agg(q.other), array_agg(q.oldest), array_agg(q.log),
               array_agg(q.locked_until), min(q.expires)
          INTO found, versions, places, ats, useds, others, oldests, logs, untils, first_end
          FROM (SELECT r.key, r.xmin, r.ctid, r.at, r.used, r.other, r.oldest, r.expires,
                       r.locked_until,
                       CASE WHEN r.log IS NOT NULL THEN ROW(r.log)::weir.log END AS log
                  FROM weir.states r WHERE r.key = ANY (keys) ORDER BY r.key) q;
        missing := 0;
        IF found IS DISTINCT FROM keys THEN
            -- Move the rows to the slots of their keys, from the last to the first.
            missing := key_count - coalesce(cardinality(found), 0);
            i := key_count - missing;
            FOR k IN REVERSE key_count..1 LOOP
                IF keys[k] <= keys[k - 1] THEN
                    RAISE EXCEPTION 'keys must be distinct and ascending'
                        USING ERRCODE = 'invalid_parameter_value';
                ELSIF found[i] = keys[k] THEN
                    IF i < k THEN
                        versions[k] := versions[i];
                        places[k] := places[i];
                        ats[k] := ats[i];
                        useds[k] := useds[i];
                        others[k] := others[i];
                        oldests[k] := oldests[i];
                        logs[k] := logs[i];
                        untils[k] := untils[i];
                    END IF;
                    i := i - 1;
                ELSE
                    versions[k] := NULL;
                    places[k] := NULL;
                    ats[k] := 0;
                    useds[k] := 0;
                    others[k] := 0;
                    oldests[k] := 0;
                    logs[k] := NULL;
                    untils[k] := NULL;
                END IF;
            END LOOP;
        END IF;
        IF 0 > ANY (untils) THEN -- some have leases
            leases := array_fill(NULL::weir.log, ARRAY[key_count]);
            ended := none;
            FOR k IN 1..key_count LOOP
                CONTINUE WHEN untils[k] IS NULL OR untils[k] >= 0;
                SELECT * INTO stood FROM weir.leased_state(keys[k]);
                versions[k] := stood.version;
                places[k] := stood.place;
                ats[k] := coalesce(stood.at, 0);
                useds[k] := coalesce(stood.used, 0);
                others[k] := coalesce(stood.other, 0);
                oldests[k] := coalesce(stood.oldest, 0);
                untils[k] := stood.until;
                logs[k] := CASE WHEN stood.log IS NOT NULL THEN ROW(stood.log)::weir.log END;
                leases[k] := ROW(stood.leases)::weir.log;
                missing := missing + CASE WHEN stood.version IS NULL THEN 1 ELSE 0 END;
            END LOOP;
        END IF;
        clock := floor(extract(epoch FROM clock_timestamp()) * 1000);
        now := clock;
        expiries := none;
        logged := 0;
        log_changed := false;
        forgotten := NULL;
        last := 0;

        FOR question IN 1..question_count LOOP
            IF is_plain THEN
                CONTINUE WHEN pass = 2 AND settled[question];
                first := question;
                last := question;
            ELSE
                first := last + 1;
                last := first;
                IF counts IS NOT NULL THEN
                    last := first + counts[question] - 1;
                END IF;
                CONTINUE WHEN pass = 2 AND settled[question];
                cost := asked;
                IF verbs IS NOT NULL THEN
                    verb := verbs[question];
                    IF verb NOT BETWEEN 0 AND 3 AND verb NOT BETWEEN 5 AND 7 THEN
                        -- never as one of the others
                        RAISE EXCEPTION 'there is no verb %', verb
                            USING ERRCODE = 'invalid_parameter_value';
                    END IF;
                    forced := verb = 5;
                    holds := verb IN (6, 7);
                    verb := CASE WHEN verb > 3 THEN 0 ELSE verb END;
                END IF;
                IF nows IS NOT NULL THEN
                    now := coalesce(nows[question], clock);
                END IF;
                -- Check several charges first, then charge all of them.
                charging := verb = 0 AND (first = last OR forced);
                writes := charging;
            END IF;
            passes := true;
            wrote := false;
            i := first;
            LOOP
                s := slots[i];
                IF costs IS NOT NULL THEN
                    asked := costs[i];
                    cost := asked;
                    writes := charging AND cost <> 0;
                END IF;
                IF rules[i] <> rule THEN
                    rule := rules[i];
                    kind := algorithms[rule];
                    max := limits[rule];
                    win := windows[rule];
                    burst := bursts[rule];
                    width := precisions[rule];
                    life := width - 1 + win;
                    is_leaky := kind = 5;
                    kind := CASE WHEN kind = 15 THEN 15 WHEN max = 0 THEN 0 WHEN kind = 5 THEN 4
                                 ELSE kind END;
                END IF;
                at := ats[s];
                used := useds[s];
                IF kind = 2 OR kind = 3 OR kind > 15 OR verb > 1 THEN
                    other := others[s];
                    oldest := oldests[s];
                    IF kind = 2 AND logged <> s THEN
                        IF log_changed THEN
                            logs[logged] := ROW(log)::weir.log;
                            log_changed := false;
                        END IF;
                        log := (logs[s]).entries;
                        logged := s;
                    END IF;
                END IF;
                leased := 0;
                is_lease := holds AND verbs[question] = 7 AND kind BETWEEN 2 AND 4 AND cost > 0;
                IF untils[s] IS NOT NULL THEN
                    is_out := now < untils[s] AND kind <> 0;
                    is_held := untils[s] IN (0, -2) AND kind = 4;
                    IF untils[s] < 0 AND kind BETWEEN 2 AND 4 THEN
                        other := others[s];
                        oldest := oldests[s];
                        stood := weir.end_leases(
                            keys[s], kind, max, win, burst, width, is_held, now, at, used, other,
                            oldest, CASE WHEN kind = 2 THEN log END, (leases[s]).entries);
                        leased := stood.leased;
                        open := stood.leases;
                        IF cardinality(open) IS DISTINCT FROM cardinality((leases[s]).entries) THEN
                            at := stood.at;
                            used := stood.used;
                            other := stood.other;
                            oldest := stood.oldest;
                            ats[s] := at;
                            useds[s] := used;
                            others[s] := other;
                            oldests[s] := oldest;
                            leases[s] := ROW(open)::weir.log;
                            ended[s] := now;
                            IF kind = 2 THEN
                                log := stood.log;
                                log_changed := true;
                            END IF;
                        END IF;
                    END IF;
                    IF is_held THEN
                        SELECT u.known, u.held, u.last INTO other, oldest, last_hold
                          FROM weir.bring_up(keys[s], max, win, at, greatest(now, at), others[s],
                                             oldests[s]) AS u;
                    ELSIF now >= untils[s] AND untils[s] > 0 THEN -- over: the key is untouched
                        at := 0;
                        used := 0;
                        other := 0;
                        oldest := 0;
                        IF kind = 2 AND log IS NOT NULL THEN
                            log := NULL;
                            log_changed := true;
                        END IF;
                    END IF;
                ELSIF is_out OR is_held THEN
                    is_out := false;
                    is_held := false;
                END IF;
                IF pass = 2 THEN
                    allowed[i] := true;
                    retry_after[i] := 0;
                    delay[i] := 0;
                END IF;

                IF verb > 1 THEN
                    -- Change the state here; the answer is computed below.
                    cost := 0;
                    writes := CASE WHEN verb = 3 THEN at > 0 OR used > 0 OR untils[s] IS NOT NULL
                                   ELSE (at > 0 OR used > 0 OR leased > 0) AND NOT is_out END;
                    IF NOT writes THEN
                        NULL; -- nothing to refund or reset
                    ELSIF verb = 3 THEN
                        is_out := false;
                        at := 0;
                        used := 0;
                        other := 0;
                        oldest := 0;
                        IF kind = 2 AND log IS NOT NULL THEN
                            log := NULL;
                            log_changed := true;
                        ELSIF kind = 0 THEN
                            logs[s] := NULL;
                        END IF;
                        is_held := false;
                        leased := 0;
                        open := NULL;
                        forgotten := forgotten || keys[s];
                    ELSIF max = 0 THEN
                        writes := false;
                    ELSIF kind = 1 THEN
                        IF now - now % win <= at THEN
                            used := used - least(asked, used);
                        END IF;
                    ELSIF kind > 15 THEN
                        IF now < other THEN
                            used := used - least(asked, used);
                        END IF;
                    ELSIF kind = 3 THEN
                        t := greatest(now, at);
                        t := t - t % win;
                        IF at = t - win THEN
                            at := t;
                            other := used;
                            used := 0;
                        ELSIF at < t THEN
                            used := 0;
                            other := 0;
                        END IF;
                        lack := asked - least(asked, used);
                        used := used - (asked - lack);
                        other := other - least(lack, other);
                    ELSIF kind = 4 THEN
                        t := greatest(now, at);
                        used := CASE WHEN t - at > used / max THEN 0 ELSE used - (t - at) * max END;
                        at := t;
                        used := used - least(used, least(asked, used / win + 1) * win);
                    ELSIF kind = 2 THEN
                        -- Newest first: a refund takes back the latest admissions.
                        lack := least(asked, used);
                        used := used - lack;
                        WHILE lack >= other AND used > 0 LOOP
                            lack := lack - other;
                            gone := cardinality(log);
                            at := log[gone - 1];
                            other := log[gone];
                            log := CASE WHEN gone > 2 THEN log[:gone - 2] END;
                            log_changed := true;
                        END LOOP;
                        other := other - lack;
                        IF used = 0 AND log IS NOT NULL THEN
                            log := NULL;
                            log_changed := true;
                        END IF;
                    ELSIF kind = 15 THEN
                        cost := -asked; -- a refund is a negative cost
                    END IF;
                END IF;

                IF leased > 0 THEN -- so much less room
                    burst := burst - leased;
                    max := max - CASE WHEN kind = 4 THEN 0 ELSE leased END;
                END IF;
                charging := charging AND NOT is_lease;
                IF is_out AND NOT forced THEN
                    t := now;
                    ok := cost = 0;
                    wait := untils[s] - now;
                    reset := wait;
                    rest := 0;
                ELSIF kind = 4 THEN
                    t := greatest(now, at);
                    used := CASE WHEN t - at > used / max THEN 0 ELSE used - (t - at) * max END;
                    at := t;
                    rest := (burst * win - used) / win;
                    ok := forced OR cost <= rest OR cost = 0;
                    IF is_held AND (charging OR forced) AND NOT holds THEN
                        other := greatest(other, least(other + least(cost, most / win + 1) * win,
                                                       1::bigint << 60));
                    END IF;
                    IF forced THEN
                        used := greatest(used, least(used + least(cost, most / win + 1) * win, most));
                        rest := burst - (used + win - 1) / win;
                    ELSIF NOT ok THEN
                        wait := CASE WHEN cost > burst THEN -1
                                     ELSE (used + (cost - burst) * win + max - 1) / max END;
                    ELSE
                        IF is_leaky THEN
                            delay[i] := (used + max - 1) / max;
                        END IF;
                        IF charging THEN
                            IF holds AND cost > 0 THEN
                                other := CASE WHEN is_held THEN other ELSE used END;
                                oldest := CASE WHEN is_held THEN oldest ELSE 0 END + cost;
                                last_hold := greatest(held_until,
                                                      CASE WHEN is_held THEN last_hold END);
                                is_held := true;
                            END IF;
                            used := used + cost * win;
                            rest := rest - cost;
                        END IF;
                    END IF;
                    reset := (used + max - 1) / max;
                ELSIF kind = 2 THEN
                    t := now;
                    live := used;
                    gone := 0;
                    IF used > 0 THEN
                        t := greatest(now, at);
                        IF at + life <= t THEN
                            live := 0;
                        ELSIF oldest + life <= t THEN
                            WHILE log[gone + 1] + life <= t LOOP
                                live := live - log[gone + 2];
                                gone := gone + 2;
                            END LOOP;
                        END IF;
                    END IF;
                    IF forced THEN
                        cost := greatest(0, least(cost, most - live));
                    END IF;
                    ok := forced OR live + cost <= max OR cost = 0;
                    IF NOT ok THEN
                        wait := -1;
                        IF cost <= max THEN
                            lack := live + cost - max;
                            WHILE lack > 0 LOOP -- from the oldest, until enough units have expired
                                ends := coalesce(log[gone + 1], at);
                                lack := lack - coalesce(log[gone + 2], lack);
                                gone := gone + 2;
                            END LOOP;
                            wait := ends + life - t;
                        END IF;
                    ELSIF charging AND cost > 0 THEN
                        ends := t - t % width;
                        IF live = 0 THEN
                            at := ends;
                            other := cost;
                            oldest := ends;
                            IF log IS NOT NULL THEN
                                log := NULL;
                                log_changed := true;
                            END IF;
                        ELSE
                            IF gone > 0 THEN
                                log := CASE WHEN gone < cardinality(log) THEN log[gone + 1:] END;
                                log_changed := true;
                                oldest := coalesce(log[1], at);
                            END IF;
                            IF at >= ends THEN -- it may start later, if precision was widened
                                other := other + cost;
                            ELSE
                                gone := coalesce(cardinality(log), 0);
                                log[gone + 1] := at;
                                log[gone + 2] := other;
                                log_changed := true;
                                at := ends;
                                other := cost;
                            END IF;
                        END IF;
                        live := live + cost;
                        used := live;
                    END IF;
                    rest := max - live;
                    reset := CASE WHEN live > 0 THEN at + life - t ELSE 0 END;
                ELSIF kind = 1 THEN
                    t := greatest(now, at);
                    IF t - t % win <> at THEN
                        at := t - t % win;
                        used := 0;
                    END IF;
                    IF forced THEN
                        cost := greatest(0, least(cost, most - used));
                    END IF;
                    ok := forced OR used + cost <= max OR cost = 0;
                    reset := at + win - t;
                    IF NOT ok THEN
                        wait := CASE WHEN cost > max THEN -1 ELSE reset END;
                    ELSIF charging THEN
                        used := used + cost;
                    END IF;
                    rest := max - used;
                ELSIF kind = 3 THEN
                    t := greatest(now, at);
                    lack := t - t % win;
                    IF at <> lack THEN
                        other := CASE WHEN at = lack - win THEN used ELSE 0 END;
                        used := 0;
                        at := lack;
                    END IF;
                    ends := at + win - t;
                    rest := (max - used) * win - other * ends;
                    ok := forced OR cost = 0 OR (cost <= max AND cost * win <= rest);
                    IF forced THEN
                        used := greatest(used, least(used + cost, most / win));
                        rest := (max - used - (other * ends + win - 1) / win) * win;
                    ELSIF NOT ok THEN
                        -- Until this window ends only the previous count decays, then this one.
                        lack := max - used - cost;
                        wait := CASE WHEN cost > max THEN -1
                                     WHEN lack >= 0 THEN ends - lack * win / other
                                     ELSE ends + win - (max - cost) * win / used END;
                    ELSIF charging THEN
                        used := used + cost;
                        rest := rest - cost * win;
                    END IF;
                    rest := rest / win;
                    reset := CASE WHEN used > 0 THEN ends + win WHEN other > 0 THEN ends ELSE 0 END;
                ELSIF kind > 15 THEN
                    t := greatest(now, at);
                    IF t >= other THEN -- no window is in force
                        at := 0;
                        used := 0;
                        other := 0;
                        FOR k IN 5 * rule - 4..5 * rule - 1 LOOP
                            EXIT WHEN kind <> 33;
                            IF bounds[k] <= t AND t < bounds[k + 1] THEN
                                at := bounds[k];
                                other := bounds[k + 1];
                            END IF;
                        END LOOP;
                        IF kind = 33 AND other = 0 THEN
                            RAISE EXCEPTION 'the clocks of the database and of weir differ by more '
                                            'than a window';
                        END IF;
                    END IF;
                    IF forced THEN
                        cost := greatest(0, least(cost, most - used));
                    END IF;
                    ok := forced OR used + cost <= max OR cost = 0;
                    reset := CASE WHEN other > 0 THEN other - t ELSE 0 END;
                    IF NOT ok THEN
                        wait := CASE WHEN cost > max THEN -1 ELSE reset END;
                    ELSIF charging AND cost > 0 THEN
                        at := CASE WHEN other = 0 THEN t ELSE at END;
                        used := used + cost;
                        IF other = 0 OR kind = 49 OR (kind > 49 AND used > max) THEN
                            gone := CASE WHEN kind = 81 AND used > max THEN least(used - max - 1, 53)
                                         ELSE 0 END;
                            reset := CASE WHEN win <= most >> gone THEN win << gone ELSE most END;
                            other := t + reset;
                        END IF;
                    END IF;
                    rest := max - used;
                ELSIF kind = 6 THEN
                    IF verb = 2 OR (verb = 0 AND cost > 0 AND NOT holds) THEN
                        RAISE EXCEPTION 'a limit of what runs at once needs a reservation: reserve'
                            USING ERRCODE = 'invalid_parameter_value';
                    END IF;
                    t := greatest(now, at);
                    live := 0;
                    ends := t;
                    lack := t;
                    IF used > 0 THEN
                        SELECT u.used, u.last, u.free_at INTO live, ends, lack
                          FROM weir.taken(keys[s], at, t, max - cost, used) AS u;
                    END IF;
                    ok := live + cost <= max OR cost = 0;
                    IF NOT ok THEN
                        wait := CASE WHEN cost > max THEN -1 ELSE lack - t END;
                    ELSIF charging AND cost > 0 THEN
                        live := live + cost;
                        ends := greatest(ends, held_until);
                    END IF;
                    at := t;
                    used := live;
                    rest := max - live;
                    reset := ends - t;
                ELSIF kind = 0 THEN
                    t := now;
                    ok := forced OR cost = 0;
                    writes := writes AND NOT forced;
                    wait := -1;
                    rest := 0;
                    reset := 0;
                ELSE
                    cell := weir.take_cell(at, used, max, win, width, now, cost,
                                           charging OR cost < 0);
                    ok := cell.allowed;
                    rest := cell.remaining;
                    wait := cell.retry_after;
                    reset := cell.reset_after;
                    t := cell.expires - reset;
                    IF ok AND writes THEN
                        at := cell.next_at;
                        used := cell.next_used;
                    END IF;
                END IF;

                IF leased > 0 THEN
                    burst := burst + leased;
                    max := max + CASE WHEN kind = 4 THEN 0 ELSE leased END;
                    IF ok AND is_leaky AND NOT forced THEN -- what is leased is in the queue, too
                        delay[i] := (used + (leased - CASE WHEN charging THEN cost ELSE 0 END) * win
                                     + max - 1) / max;
                    ELSIF NOT ok THEN
                        wait := CASE WHEN cost > CASE WHEN kind = 4 THEN burst ELSE max END THEN -1
                                     ELSE weir.foresee(kind, max, win, burst, width, t, cost, at,
                                                       used, other, oldest, log, open) END;
                    END IF;
                END IF;
                IF is_lease THEN
                    charging := writes;
                    IF charging AND ok THEN
                        rest := rest - cost;
                        open := weir.with_lease(CASE WHEN leased > 0 THEN open END, cost, held_until);
                        leased := leased + cost;
                    END IF;
                END IF;
                IF leased > 0 THEN
                    reset := weir.foresee(kind, max, win, burst, width, t, NULL, at, used, other,
                                          oldest, log, open);
                END IF;
                IF is_out AND forced THEN -- counted, and forgotten when the lockout ends
                    t := now;
                    rest := least(rest, 0);
                    reset := untils[s] - now;
                    delay[i] := 0;
                END IF;
                remaining[i] := CASE WHEN rest > 0 OR kind = 15 OR forced THEN rest ELSE 0 END;
                reset_after[i] := reset;
                IF NOT ok THEN
                    passes := false;
                    allowed[i] := false;
                    retry_after[i] := wait;
                    IF blocks[rule] > 0 AND verb = 0 AND wait <> -1 AND NOT is_out THEN
                        ats[s] := 0;
                        useds[s] := 0;
                        others[s] := 0;
                        oldests[s] := 0;
                        IF kind = 2 THEN
                            log := NULL;
                            log_changed := true;
                        END IF;
                        untils[s] := now + blocks[rule];
                        leases[s] := NULL;
                        expiries[s] := untils[s];
                        forgotten := forgotten || keys[s];
                        remaining[i] := 0;
                        retry_after[i] := blocks[rule];
                        reset_after[i] := blocks[rule];
                    END IF;
                ELSIF writes THEN
                    wrote := true;
                    untils[s] := CASE WHEN is_out AND forced THEN untils[s] END;
                    ats[s] := at;
                    useds[s] := used;
                    IF kind = 2 OR kind = 3 OR kind > 15 OR verb > 1 OR is_held THEN
                        others[s] := other;
                        oldests[s] := oldest;
                        IF verb = 3 THEN
                            ats[s] := 0; -- as a new row
                        END IF;
                    END IF;
                    expiries[s] := t + reset;
                    IF is_held AND (other > 0 OR oldest > 0) THEN
                        untils[s] := 0;
                        expiries[s] := greatest(t, last_hold)
                            + (greatest(used, other) + oldest * win + max - 1) / max;
                    END IF;
                    IF leased > 0 THEN
                        untils[s] := CASE WHEN untils[s] = 0 THEN -2 ELSE -1 END;
                        leases[s] := ROW(open)::weir.log;
                        expiries[s] := greatest(expiries[s], t + reset);
                    END IF;
                    IF verb > 1 OR cost < 0 THEN
                        -- Deny caches of servers must forget this key.
                        PERFORM pg_notify('weir', 'key ' || keys[s]);
                    END IF;
                END IF;
                IF i < last THEN
                    i := i + 1;
                ELSIF charging OR verb > 0 OR NOT passes THEN
                    EXIT;
                ELSE
                    charging := true;
                    writes := true;
                    i := first;
                END IF;
            END LOOP;

            IF pass = 1 AND (is_hot OR NOT wrote OR verb > 1) THEN
                EXIT WHEN is_hot AND wrote;
                -- The answer is final if no question before this one writes its keys.
                settled[question] := true;
                FOR k IN first..last LOOP
                    IF expiries[slots[k]] IS NOT NULL THEN
                        settled[question] := false;
                    END IF;
                END LOOP;
                FOR k IN first..last LOOP
                    EXIT WHEN settled[question];
                    involved := coalesce(involved, array_fill(false, ARRAY[key_count]));
                    involved[slots[k]] := true;
                END LOOP;
            END IF;
        END LOOP;
        changed := cardinality(array_remove(expiries, NULL));
        IF changed = 0 THEN
            RETURN;
        END IF;
        IF log_changed THEN
            logs[logged] := ROW(log)::weir.log;
        END IF;
        -- A single row is compared and written by one UPDATE. If that fails, lock it.
        is_bold := pass = 1 AND changed = 1 AND missing = 0 AND involved IS NULL AND NOT is_hot;
        to_write := changed;
        LOOP
            IF pass = 1 AND NOT is_bold THEN
                SELECT array_agg(u.key), array_agg(u.version) FILTER (WHERE u.version IS NOT NULL),
                       count(*) FILTER (WHERE u.expires IS NOT NULL AND u.version IS NOT NULL)
                  INTO need, expected, to_write
                  FROM unnest(keys, versions, expiries, involved)
                       AS u (key, version, expires, involved)
                 WHERE u.expires IS NOT NULL OR u.involved OR is_hot;
                locked := NULL;
                made := '{}';
                IF missing = 0 AND first_end > clock - may_go_after THEN -- all rows exist
                    SELECT array_agg(q.xmin) INTO locked
                      FROM (SELECT r.xmin FROM weir.states r WHERE r.key = ANY (need)
                             ORDER BY r.key FOR UPDATE) q;
                END IF;
                IF cardinality(locked) IS DISTINCT FROM cardinality(need) THEN
                    -- Rows that this call charges are inserted with their new state. Rows that it
                    -- only depends on, or has not judged yet, are inserted unused.
                    WITH locking AS (
                        INSERT INTO weir.states AS r (key, at, used, other, oldest, expires, due, log,
                                                     locked_until)
                        SELECT u.key, CASE WHEN u.stands THEN u.at ELSE 0 END,
                               CASE WHEN u.stands THEN u.used ELSE 0 END,
                               CASE WHEN u.stands THEN u.other ELSE 0 END,
                               CASE WHEN u.stands THEN u.oldest ELSE 0 END,
                               CASE WHEN u.stands THEN u.expires ELSE 0 END,
                               CASE WHEN u.stands THEN u.expires ELSE clock END + 60000,
                               CASE WHEN u.stands THEN u.log END,
                               CASE WHEN u.stands THEN u.until END
                          FROM (SELECT k.*, k.version IS NULL AND k.expires IS NOT NULL AND NOT is_hot
                                            AS stands
                                  FROM unnest(keys, versions, ats, useds, others, oldests, expiries,
                                              logs, untils, involved)
                                       AS k (key, version, at, used, other, oldest, expires, log,
                                             until, involved)
                                 WHERE k.expires IS NOT NULL OR k.involved OR is_hot) AS u
                         ORDER BY u.key
                            ON CONFLICT (key) DO UPDATE SET room = NULL WHERE false -- locks it
                        RETURNING r.key
                    )
                    SELECT coalesce(array_agg(l.key), '{}') INTO made FROM locking l;
                    SELECT array_agg(q.xmin) INTO locked
                      FROM (SELECT r.xmin FROM weir.states r
                             WHERE r.key = ANY (need) AND r.key <> ALL (made) ORDER BY r.key) q;
                END IF;
                IF locked IS DISTINCT FROM expected AND made <> '{}' AND NOT is_hot THEN
                    UPDATE weir.states r
                       SET at = 0, used = 0, other = 0, oldest = 0, expires = 0,
                           due = clock + 60000, log = NULL, locked_until = NULL
                     WHERE r.key = ANY (made);
                END IF;
                EXIT WHEN locked IS DISTINCT FROM expected OR is_hot;
                IF to_write = 0 THEN
                    RETURN;
                END IF;
            END IF;
            UPDATE weir.states r
               SET at = u.at, used = u.used, other = u.other, oldest = u.oldest,
                   expires = u.expires, log = u.log, locked_until = u.until, room = NULL
              FROM unnest(places, versions, ats, useds, others, oldests, expiries, logs, untils)
                   AS u (place, version, at, used, other, oldest, expires, log, until)
             WHERE r.ctid = u.place AND r.xmin = u.version AND u.expires IS NOT NULL;
            GET DIAGNOSTICS written = ROW_COUNT;
            IF written = to_write THEN
                IF forgotten IS NOT NULL THEN
                    DELETE FROM weir.holds h WHERE h.key = ANY (forgotten);
                END IF;
                IF ended IS NOT NULL THEN
                    DELETE FROM weir.holds h USING unnest(keys, ended, expiries) AS u (key, to_, expires)
                     WHERE h.key = u.key AND h.expires <= u.to_ AND h.mark = -1
                       AND u.expires IS NOT NULL;
                END IF;
                RETURN;
            ELSIF NOT is_bold THEN
                RAISE EXCEPTION 'a locked row was changed: try again'
                    USING ERRCODE = 'serialization_failure';
            END IF;
            is_bold := false;
        END LOOP;
    END LOOP;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.judge(uuid[], integer[], bigint[], bigint[], bigint[], bigint[],
    integer[], integer[], integer[], integer[], bigint[], bigint[], bigint[], bigint[], bigint)
    TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (2, 'judge') ON CONFLICT DO NOTHING;
COMMIT;
