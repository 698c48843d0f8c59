-- 0013_reservations.sql - what is held until it is known what was used: reserve, commit, grow, extend.
--
-- A reservation is an admission at the instant at which it is made, and a record of it in
-- weir.reservations. weir.judge() charges it, like a check. What it has charged is noted in weir.holds
-- with a mark that says where: the start of the window or of the bucket of a log. So a settlement
-- gives back that charge, and never another one.
--
-- RULES (tests/sql/test_reservations.py has tests of each)
--   H1  The record, the holds and the charges are written by one statement: all of them or none.
--   H2  Calls never deadlock: records are locked first, in the order of their ids, then the rows of
--       all keys, in key order. Upkeep skips what is locked.
--   H3  The same id at the same time from many sessions is charged once: the others wait until the
--       row with this id is there, or is not.
--   H4  A record is known until 10 minutes after its expiry, to the ms, whether upkeep ran or not.
--   H5  What is to be given back when it expires is given back by the next upkeep of any server, by
--       weir.tidy(), or by a settlement, and never before it expires. Until then it stays held: a bucket
--       counts it as used only when its record is no longer known.
BEGIN;
SET LOCAL client_min_messages = warning;

-- ---- giving back ---------------------------------------------------------------------------------

-- Take an amount out of the window, or the bucket of a log, with this mark, if it is still counted.
CREATE OR REPLACE FUNCTION weir.give_back(
    p_key uuid, p_algorithm integer, p_window bigint, p_mark bigint, p_amount bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s record;
    entries bigint[];
    place integer;
    gone bigint;
BEGIN
    IF p_algorithm <> 2 THEN -- one of the fixed windows, or a sliding counter
        UPDATE weir.states r
           SET used = r.used - CASE WHEN r.at = p_mark THEN least(p_amount, r.used) ELSE 0 END,
               other = r.other - CASE WHEN p_algorithm = 3 AND r.at - p_window = p_mark
                                      THEN least(p_amount, r.other) ELSE 0 END,
               room = NULL
         WHERE r.key = p_key AND p_mark IN (r.at, r.at - p_window);
        RETURN;
    END IF;
    SELECT r.at, r.used, r.other, r.log INTO s FROM weir.states r WHERE r.key = p_key;
    entries := s.log;
    IF s.at = p_mark THEN
        gone := least(p_amount, s.other);
        s.other := s.other - gone;
        WHILE s.other = 0 AND entries IS NOT NULL LOOP -- the newest bucket is never empty
            place := cardinality(entries);
            s.at := entries[place - 1];
            s.other := entries[place];
            entries := CASE WHEN place > 2 THEN entries[:place - 2] END;
        END LOOP;
    ELSE
        FOR i IN 1..coalesce(cardinality(entries), 0) / 2 LOOP
            place := CASE WHEN entries[2 * i - 1] = p_mark THEN 2 * i ELSE place END;
        END LOOP;
        IF place IS NULL THEN
            RETURN;
        END IF;
        gone := least(p_amount, entries[place]);
        entries[place] := entries[place] - gone;
        IF entries[place] = 0 THEN
            entries := nullif(entries[:place - 2] || entries[place + 1:], '{}');
        END IF;
    END IF;
    UPDATE weir.states r
       SET at = s.at, used = greatest(0, s.used - gone), other = s.other,
           oldest = coalesce(entries[1], s.at), log = entries, room = NULL
     WHERE r.key = p_key;
END $$;

-- So much of a bucket's hold was used, and it is over. What is given back is bounded: the level goes
-- down to what is known to be used and what is still held, and no further. So no burst of what was
-- really used exceeds the limit. Of what was reserved, less is held if a lockout or a reset has
-- forgotten it before the rest was grown. False: the hold is not open.
DROP FUNCTION IF EXISTS weir.settle_bucket(uuid, bigint, bigint, bigint, bigint, uuid, bigint);
CREATE OR REPLACE FUNCTION weir.settle_bucket(
    p_key uuid, max bigint, win bigint, now bigint, p_expires bigint, p_id uuid, p_used bigint,
    p_reserved bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT bigint := (1::bigint << 53) - 1;
    s record;
    up record;
    held bigint;
    t bigint;
    level bigint;
    known bigint;
BEGIN
    SELECT r.at, r.used, r.other, r.oldest, r.locked_until INTO s
      FROM weir.states r WHERE r.key = p_key;
    t := greatest(now, s.at);
    held := (SELECT sum(h.amount) FROM weir.holds h
              WHERE h.key = p_key AND h.expires = p_expires AND h.reservation = p_id);
    -- Leases beside it that have expired meanwhile count from `t` on, which is later.
    IF held IS NULL OR p_expires <= t OR coalesce(s.locked_until, 1) NOT IN (0, -2) THEN
        RETURN false;
    END IF;
    p_used := greatest(0, p_used - (p_reserved - held));
    up := weir.bring_up(p_key, max, win, s.at, t, s.other, s.oldest);
    known := up.known + least(p_used, most / win + 1) * win;
    level := CASE WHEN t - s.at > s.used / max THEN 0 ELSE s.used - (t - s.at) * max END;
    level := level + greatest(0, least(p_used - held, most / win + 1)) * win;
    level := least(level, known + (up.held - held) * win);
    UPDATE weir.states r
       SET at = t, used = level, other = known, oldest = up.held - held,
           locked_until = CASE WHEN known > 0 OR up.held > held THEN s.locked_until
                               WHEN s.locked_until = -2 THEN -1 END,
           expires = greatest(CASE WHEN s.locked_until = -2 THEN r.expires END, greatest(t, up.last)
                     + (greatest(level, known) + (up.held - held) * win + max - 1) / max),
           room = NULL
     WHERE r.key = p_key;
    RETURN true;
END $$;

-- Is it a lease of this algorithm, and beside the state of its key?
CREATE OR REPLACE FUNCTION weir.stands(r weir.reservations, p_algorithm integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT r.fingerprint = 0 AND p_algorithm BETWEEN 2 AND 5
$$;

-- Bring a key up to now: leases that have expired are used. With p_held, a lease of so much is over, and
-- so much of it was used: false if it is not open.
CREATE OR REPLACE FUNCTION weir.bring_up_leases(
    r weir.reservations, i integer, p_now bigint, p_used bigint DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    max CONSTANT bigint := r.limits[i];
    win CONSTANT bigint := r.windows[i];
    kind CONSTANT integer := CASE WHEN r.algorithms[i] = 5 THEN 4 ELSE r.algorithms[i] END;
    s record;
    now record;
    up record;
    t bigint;
    is_held boolean;
    is_leased boolean;
BEGIN
    IF p_used IS NOT NULL THEN
        DELETE FROM weir.holds h
         WHERE h.key = r.keys[i] AND h.expires = r.expires AND h.reservation = r.id
           AND h.mark = -1 AND r.expires > p_now;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    SELECT * INTO s FROM weir.leased_state(r.keys[i]);
    IF s.until IS NULL OR s.until >= 0 THEN -- it was locked out, or forgotten
        RETURN false;
    END IF;
    is_held := s.until = -2 AND kind = 4;
    now := weir.end_leases(r.keys[i], kind, max, win, r.bursts[i], r.precisions[i], is_held,
                           p_now, s.at, s.used, s.other, s.oldest, s.log, s.leases);
    DELETE FROM weir.holds h WHERE h.key = r.keys[i] AND h.expires <= p_now AND h.mark = -1;
    IF p_used > 0 THEN -- as if a lease of so much had expired now
        now := weir.end_leases(r.keys[i], kind, max, win, r.bursts[i], r.precisions[i], is_held,
                               p_now, now.at, now.used, now.other, now.oldest, now.log,
                               ARRAY[p_used, p_now] || now.leases);
    END IF;
    is_leased := now.leased > 0;
    t := p_now + weir.foresee(kind, max, win, r.bursts[i], r.precisions[i], p_now, NULL, now.at,
                              now.used, now.other, now.oldest, now.log, now.leases);
    IF is_held THEN
        up := weir.bring_up(r.keys[i], max, win, now.at, now.at, now.other, now.oldest);
        t := greatest(t, greatest(now.at, up.last)
                         + (greatest(now.used, now.other) + now.oldest * win + max - 1) / max);
    END IF;
    UPDATE weir.states w
       SET at = now.at, used = now.used, other = now.other, oldest = now.oldest, log = now.log,
           locked_until = CASE WHEN is_held AND is_leased THEN -2 WHEN is_leased THEN -1
                               WHEN is_held THEN 0 END,
           expires = t, room = NULL
     WHERE w.key = r.keys[i];
    RETURN true;
END $$;

-- When a hold of a reservation ends by itself. One of a bucket that is to be given back waits for that.
CREATE OR REPLACE FUNCTION weir.hold_until(r weir.reservations, p_algorithm integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT r.expires + CASE WHEN r.gives_back AND p_algorithm IN (4, 5) THEN 600000 ELSE 0 END
$$;

-- The holds of a reservation have expired and are forgotten. A bucket must know of them first, and
-- slots must be free. The rows of the keys are locked.
CREATE OR REPLACE FUNCTION weir.drop_expired(r weir.reservations) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s record;
    up record;
    ends bigint;
BEGIN
    FOR i IN 1..cardinality(r.keys) LOOP
        IF weir.stands(r, r.algorithms[i]) AND r.limits[i] > 0 THEN
            PERFORM weir.bring_up_leases(r, i, r.expires);
            CONTINUE;
        END IF;
        CONTINUE WHEN r.algorithms[i] NOT IN (4, 5, 6)
                      OR r.is_released AND r.algorithms[i] <> 6;
        ends := weir.hold_until(r, r.algorithms[i]);
        SELECT w.at, w.used, w.other, w.oldest, w.locked_until INTO s FROM weir.states w
         WHERE w.key = r.keys[i] AND w.at < ends;
        IF r.algorithms[i] = 6 AND s.used > 0 THEN
            UPDATE weir.states w
               SET at = r.expires, used = (weir.taken(r.keys[i], s.at, r.expires, s.used,
                                                      s.used)).used
             WHERE w.key = r.keys[i];
        ELSIF s.locked_until IN (0, -2) THEN
            up := weir.bring_up(r.keys[i], r.limits[i], r.windows[i], s.at, ends, s.other,
                                s.oldest);
            UPDATE weir.states w
               SET at = ends, other = up.known, oldest = up.held,
                   used = CASE WHEN ends - s.at > s.used / r.limits[i] THEN 0
                               ELSE s.used - (ends - s.at) * r.limits[i] END
             WHERE w.key = r.keys[i];
        END IF;
    END LOOP;
    DELETE FROM weir.holds h
     WHERE h.key = ANY (r.keys) AND h.expires IN (r.expires, weir.hold_until(r, 4))
       AND h.reservation = r.id;
    IF r.gives_back THEN
        DELETE FROM weir.releases e WHERE e.expires = r.expires AND e.reservation = r.id;
    END IF;
END $$;

-- The slots of a reservation are free, if it has not expired.
CREATE OR REPLACE FUNCTION weir.free_slots(p_key uuid, now bigint, p_expires bigint, p_id uuid)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s record;
    t bigint;
    taken bigint;
    held bigint;
BEGIN
    SELECT r.at, r.used INTO s FROM weir.states r WHERE r.key = p_key;
    t := greatest(now, s.at);
    held := (SELECT sum(h.amount) FROM weir.holds h
              WHERE h.key = p_key AND h.expires = p_expires AND h.reservation = p_id);
    IF held IS NULL OR p_expires <= t THEN
        RETURN;
    END IF;
    taken := (weir.taken(p_key, s.at, t, s.used, s.used)).used;
    UPDATE weir.states r SET at = t, used = greatest(0, taken - held), room = NULL
     WHERE r.key = p_key;
END $$;

-- ---- questions -------------------------------------------------------------------------------------

-- Ask weir.judge() about the charges of a record: as one question, but those in shadow, which come
-- last, alone. If the others are denied, the shadow charges are only looked at.
CREATE OR REPLACE FUNCTION weir.judge_record(
    r weir.reservations, p_verb integer, p_costs bigint[], p_now bigint,
    OUT allowed boolean[], OUT remaining bigint[], OUT retry_after bigint[],
    OUT reset_after bigint[], OUT delay bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    charge_count CONSTANT integer := cardinality(r.keys);
    live CONSTANT integer := coalesce(array_position(r.shadows, true) - 1, cardinality(r.keys));
    questions CONSTANT integer[] := array_remove(ARRAY[live], 0)
                                    || array_fill(1, ARRAY[charge_count - live]);
    sorted uuid[] := r.keys;
    slots integer[] := '{1}';
    places integer[];
    verbs integer[];
    said record;
BEGIN
    IF charge_count > 1 THEN
        SELECT array_agg(u.key ORDER BY u.key) INTO sorted FROM unnest(r.keys) AS u (key);
        SELECT array_agg(array_position(sorted, u.key) ORDER BY u.n) INTO slots
          FROM unnest(r.keys) WITH ORDINALITY AS u (key, n);
    END IF;
    places := ARRAY(SELECT n FROM generate_series(1, charge_count) AS n);
    verbs := array_fill(p_verb, ARRAY[cardinality(questions)]);
    IF p_verb <> 5 AND live BETWEEN 1 AND charge_count - 1 THEN
        said := weir.judge(sorted, r.algorithms, r.limits, r.windows, r.bursts, r.precisions,
                           slots, places, questions,
                           array_fill(1, ARRAY[cardinality(questions)]), p_costs,
                           array_fill(p_now, ARRAY[cardinality(questions)]), r.blocks, r.bounds);
        IF false = ANY (said.allowed[:live]) THEN
            verbs := ARRAY[p_verb] || array_fill(1, ARRAY[charge_count - live]);
        END IF;
    END IF;
    SELECT j.allowed, j.remaining, j.retry_after, j.reset_after, j.delay
      INTO allowed, remaining, retry_after, reset_after, delay
      FROM weir.judge(sorted, r.algorithms, r.limits, r.windows, r.bursts, r.precisions, slots,
                      places, questions, verbs, p_costs,
                      array_fill(p_now, ARRAY[cardinality(questions)]), r.blocks, r.bounds,
                      weir.hold_until(r, 4)) AS j;
END $$;

-- The bounds of a record's windows of the calendar around a time. Those that were known when it was
-- made are good for a while.
CREATE OR REPLACE FUNCTION weir.bounds_of(r weir.reservations, p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    bounds bigint[] := r.bounds;
    words text[];
BEGIN
    IF array_position(r.algorithms, 33) IS NULL THEN
        RETURN bounds;
    END IF;
    FOR i IN 1..cardinality(r.keys) LOOP
        IF r.algorithms[i] = 33
           AND NOT (bounds[5 * i - 4] <= p_now AND p_now < bounds[5 * i]) THEN
            words := string_to_array(r.calendars[i], ' ');
            bounds := bounds[:5 * i - 5]
                      || weir.calendar_bounds(words[1], words[3], words[2]::integer, p_now)
                      || bounds[5 * i + 1:];
        END IF;
    END LOOP;
    RETURN bounds;
END $$;

-- Note what was charged: a part of each charge with a cost that passed. A bucket and slots have one
-- hold a reservation; of the others a part has one mark. Beyond 256 parts an amount is held, but
-- nothing of it comes back.
CREATE OR REPLACE FUNCTION weir.add_parts(
    r weir.reservations, p_costs bigint[], p_allowed boolean[], OUT part_count integer)
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT integer := 256;
    charged_at bigint;
    last_part integer;
    last_mark bigint;
    ends bigint;
BEGIN
    part_count := r.part_count;
    FOR i IN 1..cardinality(r.keys) LOOP
        CONTINUE WHEN p_costs[i] = 0 OR NOT p_allowed[i];
        charged_at := 0;
        ends := weir.hold_until(r, r.algorithms[i]);
        IF weir.stands(r, r.algorithms[i]) THEN
            charged_at := -1;
        ELSIF r.algorithms[i] NOT IN (4, 5, 6) THEN
            SELECT s.at INTO charged_at FROM weir.states s WHERE s.key = r.keys[i];
        END IF;
        last_mark := NULL;
        IF r.part_count > 0 THEN
            SELECT h.part, h.mark INTO last_part, last_mark FROM weir.holds h
             WHERE h.key = r.keys[i] AND h.expires = ends AND h.reservation = r.id
             ORDER BY h.part DESC LIMIT 1;
        END IF;
        IF last_mark = charged_at THEN
            UPDATE weir.holds h SET amount = h.amount + p_costs[i]
             WHERE h.key = r.keys[i] AND h.expires = ends AND h.reservation = r.id
               AND h.part = last_part;
        ELSIF part_count < most OR r.algorithms[i] IN (4, 5, 6) THEN
            part_count := part_count + 1;
            INSERT INTO weir.holds (key, expires, reservation, part, mark, amount)
            VALUES (r.keys[i], ends, r.id, part_count, charged_at, p_costs[i]);
        END IF;
    END LOOP;
END $$;

-- Give back what was not used, newest part first, and free what is held. The answer is what is
-- still to be charged, because it was used beyond what was held.
CREATE OR REPLACE FUNCTION weir.settle_holds(r weir.reservations, p_used bigint[], p_now bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    excess bigint[] := array_fill(0::bigint, ARRAY[cardinality(r.keys)]);
    is_open CONSTANT boolean := p_now < r.expires OR r.gives_back AND NOT r.is_released;
    back bigint;
    part record;
BEGIN
    FOR i IN 1..cardinality(r.keys) LOOP
        back := CASE WHEN r.is_released THEN 0 ELSE r.held[i] END - p_used[i];
        IF r.algorithms[i] = 6 THEN
            PERFORM weir.free_slots(r.keys[i], p_now, r.expires, r.id);
            CONTINUE;
        ELSIF weir.stands(r, r.algorithms[i]) THEN
            PERFORM weir.bring_up_leases(r, i, p_now, p_used[i]);
        ELSIF r.algorithms[i] IN (4, 5) AND r.held[i] > 0
              AND weir.settle_bucket(r.keys[i], r.limits[i], r.windows[i], p_now,
                                     weir.hold_until(r, 4), r.id, p_used[i],
                                     r.held[i]) THEN
            NULL;
        ELSIF back < 0 THEN
            excess[i] := -back;
        ELSIF is_open AND r.algorithms[i] NOT IN (4, 5) THEN
            FOR part IN SELECT h.mark, h.amount FROM weir.holds h
                         WHERE h.key = r.keys[i] AND h.expires = r.expires
                           AND h.reservation = r.id
                         ORDER BY h.part DESC LOOP
                EXIT WHEN back = 0;
                PERFORM weir.give_back(r.keys[i], r.algorithms[i], r.windows[i], part.mark,
                                       least(part.amount, back));
                back := back - least(part.amount, back);
            END LOOP;
        END IF;
        IF is_open AND (r.held[i] > p_used[i] OR weir.stands(r, r.algorithms[i])) THEN
            PERFORM pg_notify('weir', 'back ' || r.keys[i]); -- deny caches must forget it
        END IF;
    END LOOP;
    IF is_open THEN -- of those that have expired, a bucket or slots may yet have to know
        DELETE FROM weir.holds h USING unnest(r.keys, r.algorithms) AS u (key, algorithm)
         WHERE h.key = u.key AND h.expires = weir.hold_until(r, u.algorithm)
           AND h.reservation = r.id AND (p_now < r.expires OR u.algorithm <> 6);
    END IF;
    IF r.gives_back AND NOT r.is_released THEN
        DELETE FROM weir.releases e WHERE e.expires = r.expires AND e.reservation = r.id;
    END IF;
    RETURN excess;
END $$;

-- H5: give back what has expired of reservations that say so. Returns how many it looked at. What is
-- locked is for the next call.
CREATE OR REPLACE FUNCTION weir.release_due(p_most integer DEFAULT 500) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clock CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    looked_at integer := 0;
    locked uuid[];
    r weir.reservations;
BEGIN
    FOR r IN SELECT w.* FROM (SELECT e.reservation FROM weir.releases e WHERE e.expires <= clock
                               ORDER BY e.expires LIMIT p_most) AS due
               JOIN weir.reservations w ON w.id = due.reservation
              ORDER BY w.id FOR UPDATE OF w SKIP LOCKED LOOP
        looked_at := looked_at + 1;
        -- It may have been settled or extended before it was locked.
        CONTINUE WHEN r.keys IS NULL OR r.is_settled OR r.is_released OR r.expires > clock;
        SELECT array_agg(l.key) INTO locked
          FROM (SELECT s.key FROM weir.states s WHERE s.key = ANY (r.keys)
                 ORDER BY s.key FOR UPDATE SKIP LOCKED) AS l;
        IF NOT EXISTS (SELECT FROM weir.states s WHERE s.key = ANY (r.keys)
                          AND s.key <> ALL (coalesce(locked, '{}'))) THEN
            PERFORM weir.settle_holds(r, array_fill(0::bigint, ARRAY[cardinality(r.keys)]), clock);
            UPDATE weir.reservations w SET is_released = true WHERE w.id = r.id;
        END IF;
    END LOOP;
    RETURN looked_at;
END $$;

-- What reservations hold, and what those had that expired unsettled and are still known: a row for each
-- charge, those of a reservation together. Of one reservation more than p_most: there are more.
CREATE OR REPLACE FUNCTION weir.held_charges(p_most integer)
RETURNS TABLE (is_new boolean, is_first boolean, key uuid, policy text, rule text, counts text,
               is_shadow boolean, held bigint, expires bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.n = 1, array_position(r.policies, c.policy) = c.n, c.key, c.policy, c.rule, c.counts,
           c.is_shadow, c.held, r.expires
      FROM (SELECT w.* FROM weir.reservations w
             WHERE w.keys IS NOT NULL AND NOT w.is_settled AND NOT w.is_released
               AND w.fingerprint <> 0 -- it is not a lease
               AND w.expires > extract(epoch FROM clock_timestamp()) * 1000 - 600000
             LIMIT p_most + 1) AS r
     CROSS JOIN LATERAL unnest(r.keys, r.policies, r.rules, r.counts, r.shadows, r.held)
           WITH ORDINALITY AS c (key, policy, rule, counts, is_shadow, held, n)
     ORDER BY r.id, c.n
$$;

-- Is a charge denied that decides?
CREATE OR REPLACE FUNCTION weir.is_denied(allowed boolean[], shadows boolean[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT EXISTS (SELECT FROM unnest(allowed, shadows) AS u (allowed, is_shadow)
                    WHERE NOT u.allowed AND NOT u.is_shadow)
$$;

-- Answer many questions about reservations in one call, in order. For instances of the server; SQL
-- callers have weir.reserve() and the like.
--
-- Of each question:
--   verbs        6 reserve, 7 settle, 8 grow, 9 extend, 10 reserve what is given back when it expires,
--                11 settle, and forget the record
--   ids          16 bytes of HMAC-SHA256 of the caller's id
--   fingerprints, most_ttls
--                of a reserve: of what is asked; what an extension may have, in ms
--   ttls         of a reserve and an extend, in ms
--   flags        of a reserve: it is used at once, as a check with an id. Of a settle: nothing was
--                used
--   nows         in ms; array or element NULL: the database clock
--   name_counts  how many names and amounts it has: what was used, or what is to be added
--   counts       how many charges it has; only a reserve has some
-- Of each charge:
--   keys, algorithms, limits, windows, bursts, precisions, blocks, bounds, costs
--                as in weir.judge(). The keys of one question differ. Those in shadow come last
--   calendars    'month 1 Europe/Berlin': period, month_day and zone; NULL: none of the calendar
--   policies, rules, counted, shadows
--                what it is called, the name of what it counts, and whether it is in shadow
--
-- The answer has of each question
--   errors     0; or, with nothing done: 11 it does not count one of the names, 14 there is no such
--                reservation, 15 the id was used for another question, 16 it is settled, 17 it has
--                expired, 19 its ttl is too long; as in include/weir.h
--   repeated     it was done before; the charges are as they stand now
--   expired      a settle: it came too late to give back
--   expires_in   in ms
--   over         a settle: by how much the fullest limit is exceeded
--   charge_counts, record_counts
--                its charges, and those of its record that are told
-- and of each charge the columns of weir.judge(). Of all but reserves the record's charges are told.
DROP FUNCTION IF EXISTS weir.judge_reservations( -- it did not tell what was held
    integer[], uuid[], bigint[], bigint[], bigint[], boolean[], bigint[], integer[], text[],
    bigint[], integer[], uuid[], integer[], bigint[], bigint[], bigint[], bigint[], bigint[],
    bigint[], text[], bigint[], text[], text[], text[], boolean[]);
CREATE OR REPLACE FUNCTION weir.judge_reservations(
    verbs integer[], ids uuid[], fingerprints bigint[], ttls bigint[], most_ttls bigint[],
    flags boolean[], nows bigint[], name_counts integer[], names text[], amounts bigint[],
    counts integer[], keys uuid[], algorithms integer[], limits bigint[], windows bigint[],
    bursts bigint[], precisions bigint[], blocks bigint[], bounds bigint[], calendars text[],
    costs bigint[], policies text[], rules text[], counted text[], shadows boolean[],
    OUT errors integer[], OUT repeated boolean[], OUT expired boolean[], OUT expires_in bigint[],
    OUT over bigint[], OUT charge_counts integer[], OUT record_counts integer[],
    OUT allowed boolean[], OUT remaining bigint[], OUT retry_after bigint[],
    OUT reset_after bigint[], OUT delay bigint[],
    OUT known_keys uuid[], OUT known_algorithms integer[], OUT known_limits bigint[],
    OUT known_windows bigint[], OUT known_bursts bigint[], OUT known_precisions bigint[],
    OUT known_blocks bigint[], OUT known_policies text[], OUT known_rules text[],
    OUT known_counts text[], OUT known_shadows boolean[], OUT known_held bigint[], OUT clock bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    known_for CONSTANT bigint := 600000; -- ms after its expiry
    question_count CONSTANT integer := cardinality(verbs);
    made uuid[];
    first integer;
    last integer := 0;
    first_name integer;
    last_name integer := 0;
    r weir.reservations;
    asked weir.reservations;
    said record;
    now bigint;
    error integer;
    is_repeated boolean;
    ends bigint;
    named bigint[];
    zeros bigint[];
    more bigint;
BEGIN
    clock := floor(extract(epoch FROM clock_timestamp()) * 1000);
    -- No server keeps in mind that all slots are taken, so this is asked for over and over: a denial of
    -- a lone reserve locks and writes nothing.
    IF question_count = 1 AND 6 = ANY (algorithms) AND EXISTS (
           SELECT FROM unnest(judge_reservations.keys, algorithms, limits, costs)
                       AS u (key, algorithm, max, cost), weir.states s
            WHERE u.algorithm = 6 AND s.key = u.key AND s.used + u.cost > u.max)
       AND NOT EXISTS (SELECT FROM weir.reservations w WHERE w.id = ids[1]) THEN
        asked := ROW(ids[1], 0, 0, 0, false, 0, 0, keys, algorithms, limits, windows, bursts,
                     precisions, blocks, bounds, calendars, NULL, NULL, policies, rules, counted,
                     shadows, false, false)::weir.reservations;
        said := weir.judge_record(asked, 1, costs, coalesce(nows[1], clock));
        IF weir.is_denied(said.allowed, shadows) AND 0 = ALL (blocks) THEN
            errors := '{0}';
            repeated := '{f}';
            expired := '{f}';
            expires_in := '{0}';
            over := '{0}';
            charge_counts := counts;
            record_counts := '{0}';
            allowed := said.allowed;
            remaining := said.remaining;
            retry_after := said.retry_after;
            reset_after := said.reset_after;
            delay := said.delay;
            RETURN;
        END IF;
    END IF;
    -- H2, H3. The rows of new ids are there, or are being judged elsewhere: then this waits.
    WITH making AS (
        INSERT INTO weir.reservations AS w (id, fingerprint, expires, most_ttl, is_settled,
                                            part_count, due)
        SELECT u.id, 0, 0, 0, false, 0, clock + max(u.ttl) + known_for
          FROM unnest(ids, verbs, ttls) AS u (id, verb, ttl)
         WHERE u.verb IN (6, 10) GROUP BY u.id ORDER BY u.id
            ON CONFLICT (id) DO UPDATE SET due = 0 WHERE false -- locks it
        RETURNING w.id
    )
    SELECT array_agg(m.id) INTO made FROM making m;
    IF cardinality(made) IS DISTINCT FROM question_count THEN
        PERFORM FROM weir.reservations w WHERE w.id = ANY (ids) ORDER BY w.id FOR UPDATE;
    END IF;
    INSERT INTO weir.states AS s (key, at, used, other, oldest, expires, due)
    SELECT u.key, 0, 0, 0, 0, 0, clock + 60000
      FROM (SELECT unnest(judge_reservations.keys) AS key
             UNION
            SELECT unnest(w.keys) FROM weir.reservations w WHERE w.id = ANY (ids)) AS u
     ORDER BY u.key
        ON CONFLICT (key) DO UPDATE SET room = NULL WHERE false;
    clock := floor(extract(epoch FROM clock_timestamp()) * 1000);

    FOR q IN 1..question_count LOOP
        now := coalesce(nows[q], clock);
        first := last + 1;
        last := last + counts[q];
        first_name := last_name + 1;
        last_name := last_name + name_counts[q];
        error := 0;
        is_repeated := false;
        expired[q] := false;
        over[q] := 0;
        ends := now;
        charge_counts[q] := 0;
        record_counts[q] := 0;
        SELECT * INTO r FROM weir.reservations w WHERE w.id = ids[q];
        IF r.keys IS NOT NULL AND now >= r.expires + known_for THEN -- H4
            PERFORM weir.drop_expired(r);
            r.keys := NULL;
        END IF;

        IF verbs[q] IN (6, 10) THEN
            asked := ROW(ids[q], fingerprints[q], now + ttls[q], most_ttls[q], flags[q], 0, 0,
                         keys[first:last], algorithms[first:last], limits[first:last],
                         windows[first:last], bursts[first:last], precisions[first:last],
                         blocks[first:last], bounds[5 * first - 4:5 * last], calendars[first:last],
                         NULL, NULL, policies[first:last], rules[first:last], counted[first:last],
                         shadows[first:last], verbs[q] = 10, false)::weir.reservations;
            IF r.keys IS NULL THEN
                said := weir.judge_record(asked, CASE WHEN flags[q] THEN 0
                                                       WHEN fingerprints[q] = 0 THEN 7 ELSE 6 END,
                                          costs[first:last], now);
                IF NOT weir.is_denied(said.allowed, asked.shadows) THEN
                    ends := asked.expires;
                    asked.held := ARRAY(SELECT CASE WHEN u.allowed THEN u.cost ELSE 0 END
                                          FROM unnest(said.allowed, costs[first:last])
                                               WITH ORDINALITY AS u (allowed, cost, n)
                                         ORDER BY u.n);
                    IF flags[q] THEN
                        asked.used := asked.held;
                    ELSE
                        asked.part_count := weir.add_parts(asked, costs[first:last], said.allowed);
                    END IF;
                    UPDATE weir.reservations w
                       SET fingerprint = asked.fingerprint, expires = asked.expires,
                           most_ttl = asked.most_ttl, is_settled = asked.is_settled,
                           part_count = asked.part_count, keys = asked.keys,
                           algorithms = asked.algorithms, limits = asked.limits,
                           windows = asked.windows, bursts = asked.bursts,
                           precisions = asked.precisions, blocks = asked.blocks,
                           bounds = asked.bounds, calendars = asked.calendars, held = asked.held,
                           used = asked.used, policies = asked.policies, rules = asked.rules,
                           counts = asked.counts, shadows = asked.shadows,
                           gives_back = asked.gives_back, is_released = false
                     WHERE w.id = ids[q];
                    IF asked.gives_back THEN
                        INSERT INTO weir.releases (expires, reservation)
                        VALUES (asked.expires, ids[q]);
                    END IF;
                END IF;
            ELSIF r.fingerprint <> fingerprints[q] THEN
                error := 15;
            ELSE
                ends := r.expires;
                is_repeated := true;
                said := weir.judge_record(asked, 5, array_fill(0::bigint, ARRAY[counts[q]]), now);
            END IF;
        ELSIF r.keys IS NULL THEN
            error := 14;
        ELSIF NOT coalesce(names[first_name:last_name], '{}') <@ r.counts THEN
            error := 11;
        ELSE
            r.bounds := weir.bounds_of(r, now);
            zeros := array_fill(0::bigint, ARRAY[cardinality(r.keys)]);
            named := ARRAY(SELECT (amounts[first_name:last_name])
                                  [array_position(names[first_name:last_name], c.name)]
                             FROM unnest(r.counts) WITH ORDINALITY AS c (name, n) ORDER BY c.n);
            IF verbs[q] IN (7, 11) THEN
                named := ARRAY(SELECT CASE WHEN flags[q] THEN 0 ELSE coalesce(u.named, u.held) END
                                 FROM unnest(named, r.held) WITH ORDINALITY AS u (named, held, n)
                                ORDER BY u.n);
                expired[q] := now >= r.expires;
                IF NOT r.is_settled THEN
                    said := weir.judge_record(r, 5, weir.settle_holds(r, named, now), now);
                    IF verbs[q] = 11 AND now < r.expires THEN
                        DELETE FROM weir.reservations w WHERE w.id = ids[q];
                    ELSE
                        UPDATE weir.reservations w SET is_settled = true, used = named
                         WHERE w.id = ids[q];
                    END IF;
                    SELECT greatest(0, max(-u.rest)) INTO more
                      FROM unnest(said.remaining, r.shadows) AS u (rest, is_shadow)
                     WHERE NOT u.is_shadow;
                    over[q] := coalesce(more, 0);
                ELSIF r.used = named THEN
                    is_repeated := true;
                    expired[q] := false;
                    said := weir.judge_record(r, 5, zeros, now);
                ELSE
                    error := 16;
                END IF;
            ELSIF r.is_settled THEN
                error := 16;
            ELSIF now >= r.expires THEN
                error := 17;
            ELSIF verbs[q] = 8 THEN
                ends := r.expires;
                named := ARRAY(SELECT coalesce(u.named, 0)
                                 FROM unnest(named) WITH ORDINALITY AS u (named, n) ORDER BY u.n);
                said := weir.judge_record(r, 6, named, now);
                IF NOT weir.is_denied(said.allowed, r.shadows) THEN
                    UPDATE weir.reservations w
                       SET held = ARRAY(SELECT u.held + CASE WHEN u.allowed THEN u.cost ELSE 0 END
                                          FROM unnest(r.held, said.allowed, named)
                                               WITH ORDINALITY AS u (held, allowed, cost, n)
                                         ORDER BY u.n),
                           part_count = weir.add_parts(r, named, said.allowed)
                     WHERE w.id = ids[q];
                END IF;
            ELSIF ttls[q] > r.most_ttl THEN
                error := 19;
            ELSE
                ends := greatest(r.expires, now + ttls[q]);
                IF ends > r.expires THEN
                    UPDATE weir.holds h SET expires = h.expires + ends - r.expires
                     WHERE h.key = ANY (r.keys)
                       AND h.expires IN (r.expires, weir.hold_until(r, 4))
                       AND h.reservation = r.id;
                    IF r.gives_back THEN
                        UPDATE weir.releases e SET expires = ends
                         WHERE e.expires = r.expires AND e.reservation = r.id;
                    END IF;
                    UPDATE weir.states s SET expires = s.expires + ends - r.expires, room = NULL
                      FROM unnest(r.keys, r.algorithms) AS u (key, algorithm)
                     WHERE s.key = u.key AND u.algorithm IN (4, 5, 6);
                    UPDATE weir.reservations w SET expires = ends WHERE w.id = ids[q];
                END IF;
                said := weir.judge_record(r, 5, zeros, now);
            END IF;
        END IF;

        errors[q] := error;
        repeated[q] := is_repeated;
        expires_in[q] := ends - now;
        IF error = 0 THEN
            charge_counts[q] := cardinality(said.allowed);
            allowed := allowed || said.allowed;
            remaining := remaining || said.remaining;
            retry_after := retry_after || said.retry_after;
            reset_after := reset_after || said.reset_after;
            delay := delay || said.delay;
        END IF;
        IF error = 0 AND verbs[q] NOT IN (6, 10) THEN
            record_counts[q] := cardinality(r.keys);
            known_keys := known_keys || r.keys;
            known_algorithms := known_algorithms || r.algorithms;
            known_limits := known_limits || r.limits;
            known_windows := known_windows || r.windows;
            known_bursts := known_bursts || r.bursts;
            known_precisions := known_precisions || r.precisions;
            known_blocks := known_blocks || r.blocks;
            known_policies := known_policies || r.policies;
            known_rules := known_rules || r.rules;
            known_counts := known_counts || r.counts;
            known_shadows := known_shadows || r.shadows;
            known_held := known_held || r.held;
        END IF;
    END LOOP;
    -- A denial keeps nothing.
    IF made IS NOT NULL THEN
        DELETE FROM weir.reservations w WHERE w.id = ANY (made) AND w.keys IS NULL;
    END IF;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.judge_reservations(
    integer[], uuid[], bigint[], bigint[], bigint[], boolean[], bigint[], integer[], text[],
    bigint[], integer[], uuid[], integer[], bigint[], bigint[], bigint[], bigint[], bigint[],
    bigint[], text[], bigint[], text[], text[], text[], boolean[]) TO weir_server;
GRANT EXECUTE ON FUNCTION weir.release_due(integer), weir.held_charges(integer) TO weir_server;
INSERT INTO weir.migrations (number, name) VALUES (13, 'reservations') ON CONFLICT DO NOTHING;
COMMIT;
