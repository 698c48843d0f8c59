-- 0007_charge.sql - the fast path of most questions: checks of one rule on one key that pass.
--
-- weir.judge() reads, computes and then writes. Here one UPDATE charges the row of a key, and its
-- WHERE tests whether all questions on the key pass; an INSERT creates a missing row. Keys that
-- were not charged, because a question would be denied, go to weir.judge().
--
-- The answer to a charge is the new state of the row. The caller computes from it what each
-- question would have been answered: see src/store/postgres/charge.c.
BEGIN;
SET LOCAL client_min_messages = warning;

-- ---- the arithmetic ----------------------------------------------------------------------------
--
-- Parts of the statements below. Postgres inlines them when it plans; it calls only those for logs
-- with expired buckets. The columns of the row are the last parameters.
DROP FUNCTION IF EXISTS -- older versions with other parameters
    weir.live_log, weir.fresh, weir.may_pass, weir.next_at, weir.next_used, weir.next_other,
    weir.next_oldest, weir.next_log, weir.next_expires,
    weir.charge(uuid, integer, bigint, bigint, bigint, bigint, bigint, bigint);

-- The fill level of a bucket now.
CREATE OR REPLACE FUNCTION weir.drained(max bigint, now bigint, at bigint, used bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN now <= at THEN used
                WHEN now - at > used / nullif(max, 0) THEN 0
                ELSE used - (now - at) * max END
$$;

-- When a cell is due, in ns.
CREATE OR REPLACE FUNCTION weir.due(now bigint, at bigint, used bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(at * 1000000 + used, now * 1000000)
$$;

-- The part of a log that starts before a time: its count, and the log without it.
CREATE OR REPLACE FUNCTION weir.log_gone(log bigint[], before bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    i integer := 1;
    gone bigint := 0;
BEGIN
    WHILE log[i] < before LOOP
        gone := gone + log[i + 1];
        i := i + 2;
    END LOOP;
    RETURN gone;
END $$;

CREATE OR REPLACE FUNCTION weir.log_left(log bigint[], before bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    i integer := 1;
BEGIN
    WHILE log[i] < before LOOP
        i := i + 2;
    END LOOP;
    RETURN CASE WHEN i <= cardinality(log) THEN log[i:] END;
END $$;

-- The start of the bucket of a sliding window; NULL, if the limit is 0.
CREATE OR REPLACE FUNCTION weir.bucket(width bigint, now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT now - now % nullif(width, 0)
$$;

-- The count of a sliding window; a bucket counts for `life` ms.
CREATE OR REPLACE FUNCTION weir.live(
    life bigint, now bigint, at bigint, used bigint, oldest bigint, log bigint[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN at + life <= now THEN 0
                WHEN oldest + life > greatest(now, at) THEN used
                ELSE used - weir.log_gone(log, greatest(now, at) - life + 1) END
$$;

-- May this amount pass? A cell too far from now for 64 bits of ns is left to weir.judge().
CREATE OR REPLACE FUNCTION weir.may_pass(
    algorithm integer, max bigint, win bigint, burst bigint, life bigint, amount bigint,
    now bigint, at bigint, used bigint, other bigint, oldest bigint, log bigint[])
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm = 2 THEN
                    weir.live(life, now, at, used, oldest, log) + amount <= max
                WHEN algorithm = 4 THEN
                    CASE WHEN max = 0 THEN false
                         ELSE weir.drained(max, now, at, used) <= (burst - amount) * win END
                WHEN algorithm = 1 THEN
                    CASE WHEN now < at + win THEN used ELSE 0 END + amount <= max
                WHEN algorithm = 3 THEN
                    CASE WHEN now < at + win THEN
                             other * (at + win - greatest(now, at)) <= (max - used - amount) * win
                         WHEN now < at + 2 * win THEN
                             used * (at + 2 * win - now) <= (max - amount) * win
                         ELSE amount <= max END
                WHEN amount > max THEN false
                WHEN win > 4000000000000000000 / nullif(max, 0) THEN false
                WHEN greatest(now, at) >= 4000000000000 THEN false
                ELSE weir.due(now, at, used) + (amount - max) * win <= now * 1000000 END
$$;

-- The columns of the row after the charge.
CREATE OR REPLACE FUNCTION weir.next_at(
    algorithm integer, win bigint, bucket bigint, amount bigint,
    now bigint, at bigint, used bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm = 2 THEN
                    CASE WHEN used = 0 THEN bucket ELSE greatest(at, bucket) END
                WHEN algorithm = 4 THEN greatest(at, now)
                WHEN algorithm = 1 OR algorithm = 3 THEN
                    CASE WHEN now < at + win THEN at ELSE now - now % win END
                ELSE (weir.due(now, at, used) + amount * win) / 1000000 END
$$;

CREATE OR REPLACE FUNCTION weir.next_used(
    algorithm integer, max bigint, win bigint, life bigint, amount bigint,
    now bigint, at bigint, used bigint, oldest bigint, log bigint[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm = 2 THEN weir.live(life, now, at, used, oldest, log) + amount
                WHEN algorithm = 4 THEN weir.drained(max, now, at, used) + amount * win
                WHEN algorithm = 1 OR algorithm = 3 THEN
                    CASE WHEN now < at + win THEN used ELSE 0 END + amount
                ELSE (weir.due(now, at, used) + amount * win) % 1000000 END
$$;

CREATE OR REPLACE FUNCTION weir.next_other(
    algorithm integer, win bigint, bucket bigint, amount bigint,
    now bigint, at bigint, used bigint, other bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm = 2 THEN
                    CASE WHEN at < bucket OR used = 0 THEN amount ELSE other + amount END
                WHEN algorithm = 3 THEN
                    CASE WHEN now < at + win THEN other
                         WHEN now < at + 2 * win THEN used
                         ELSE 0 END
                ELSE 0 END
$$;

CREATE OR REPLACE FUNCTION weir.next_oldest(
    algorithm integer, life bigint, bucket bigint,
    now bigint, at bigint, used bigint, oldest bigint, log bigint[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm <> 2 THEN 0
                WHEN at + life <= now OR used = 0 THEN bucket
                WHEN oldest + life > greatest(now, at) THEN oldest
                ELSE coalesce((weir.log_left(log, greatest(now, at) - life + 1))[1], at) END
$$;

CREATE OR REPLACE FUNCTION weir.next_log(
    algorithm integer, life bigint, bucket bigint,
    now bigint, at bigint, used bigint, other bigint, oldest bigint, log bigint[])
RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm <> 2 OR at + life <= now OR used = 0 THEN NULL
                ELSE CASE WHEN oldest + life > greatest(now, at) THEN log
                          ELSE weir.log_left(log, greatest(now, at) - life + 1) END
                     || CASE WHEN at < bucket THEN ARRAY[at, other] END END
$$;

CREATE OR REPLACE FUNCTION weir.next_expires(
    algorithm integer, max bigint, win bigint, life bigint, bucket bigint, amount bigint,
    now bigint, at bigint, used bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN algorithm = 2 THEN
                    weir.next_at(2, win, bucket, amount, now, at, used) + life
                WHEN algorithm = 4 THEN
                    greatest(at, now)
                        + (weir.drained(max, now, at, used) + amount * win + max - 1) / nullif(max, 0)
                WHEN algorithm = 1 THEN
                    weir.next_at(1, win, bucket, amount, now, at, used) + win
                WHEN algorithm = 3 THEN
                    weir.next_at(3, win, bucket, amount, now, at, used) + 2 * win
                ELSE (weir.due(now, at, used) + amount * win + 999999) / 1000000 END
$$;

-- The columns of a new key's row; no row, if the charge does not pass.
CREATE OR REPLACE FUNCTION weir.fresh(
    algorithm integer, max bigint, win bigint, burst bigint, life bigint, bucket bigint,
    amount bigint, now bigint)
RETURNS TABLE (at bigint, used bigint, other bigint, oldest bigint, expires bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT weir.next_at(algorithm, win, bucket, amount, now, 0, 0),
           weir.next_used(algorithm, max, win, life, amount, now, 0, 0, 0, NULL),
           weir.next_other(algorithm, win, bucket, amount, now, 0, 0, 0),
           weir.next_oldest(algorithm, life, bucket, now, 0, 0, 0, NULL),
           weir.next_expires(algorithm, max, win, life, bucket, amount, now, 0, 0)
     WHERE weir.may_pass(algorithm, max, win, burst, life, amount, now, 0, 0, 0, 0, NULL)
$$;

-- ---- the functions -----------------------------------------------------------------------------

-- weir.charge_one() charges `amount`, at least 1, to one key. `now` NULL: the database clock. The rule
-- is given as in weir.judge().
--
-- If it passes, the answer is at, used and other of the row after the charge, and the time. If not,
-- it is the answer of weir.judge(): allowed (0 or 1), remaining, retry_after, reset_after and
-- delay.
--
-- weir.charge_many() charges many distinct keys, ascending, one or more questions each:
--
--   algorithm  of all rules; NULL: they differ
--   algorithms, limits, windows, bursts, precisions
--              of the rules, as in weir.judge()
--   rules      of each key: index of its rule, from 1; NULL: the first
--   amounts    of each key: the total cost of its questions, or any number above the capacity of
--              its rule; NULL: 1
--   nows       of each key; array or element NULL: the database clock
--   counts     of each key: its number of questions; NULL: one each
--   costs      of each question, those of the first key first; NULL: 1
--
-- `passed` has the indexes of the keys for which all questions pass; ats, useds and others are
-- their rows after the charge. The other arrays are the answers of weir.judge() to the questions of
-- the other keys, in order. NULL: there are none.
--
-- Both keep the rules of weir.judge(). Rows are charged in key order. Rows that are inserted or
-- judged afterwards are out of this order. To avoid a deadlock the call then has a short lock
-- timeout: if another session holds a row, the call fails with 55P03 and changes nothing.
--
-- Each algorithm has a statement of its own without the arithmetic of the others, because the
-- startup cost of a statement grows with its expressions. All are generated from one template here.
DO $make$
DECLARE
    one CONSTANT text := $part$
        UPDATE weir.states r
           SET at = weir.next_at(@, win, bucket, amount, clock, r.at, r.used),
               used = weir.next_used(@, max, win, life, amount, clock, r.at, r.used, r.oldest,
                                     r.log),
               other = weir.next_other(@, win, bucket, amount, clock, r.at, r.used, r.other),
               oldest = weir.next_oldest(@, life, bucket, clock, r.at, r.used, r.oldest, r.log),
               log = weir.next_log(@, life, bucket, clock, r.at, r.used, r.other, r.oldest, r.log),
               expires = weir.next_expires(@, max, win, life, bucket, amount, clock, r.at, r.used),
               room = NULL
         WHERE r.key = charge_one.key AND r.locked_until IS NULL
           AND weir.may_pass(@, max, win, burst, life, amount, clock, r.at, r.used, r.other,
                             r.oldest, r.log)
        RETURNING ARRAY[r.at, r.used, r.other, clock] INTO answer;
        IF answer IS NULL THEN
            IF NOT EXISTS (SELECT FROM weir.states r WHERE r.key = charge_one.key) THEN
                INSERT INTO weir.states AS r (key, at, used, other, oldest, expires, due)
                SELECT key, f.at, f.used, f.other, f.oldest, f.expires, f.expires + 60000
                  FROM weir.fresh(@, max, win, burst, life, bucket, amount, clock) AS f
                    ON CONFLICT DO NOTHING
                RETURNING ARRAY[r.at, r.used, r.other, clock] INTO answer;
            END IF;
        END IF;$part$;
    many CONSTANT text := $part$
        WITH charged AS (
            UPDATE weir.states r
               SET at = weir.next_at(@, u.win, u.bucket, u.amount, u.now, r.at, r.used),
                   used = weir.next_used(@, u.max, u.win, u.life, u.amount, u.now, r.at, r.used,
                                         r.oldest, r.log),
                   other = weir.next_other(@, u.win, u.bucket, u.amount, u.now, r.at, r.used,
                                           r.other),
                   oldest = weir.next_oldest(@, u.life, u.bucket, u.now, r.at, r.used, r.oldest,
                                             r.log),
                   log = weir.next_log(@, u.life, u.bucket, u.now, r.at, r.used, r.other,
                                       r.oldest, r.log),
                   expires = weir.next_expires(@, u.max, u.win, u.life, u.bucket, u.amount, u.now,
                                               r.at, r.used),
                   room = NULL
              FROM (SELECT w.*, w.win + w.width - 1 AS life, weir.bucket(w.width, w.now) AS bucket
                      FROM (SELECT k.key, k.slot, coalesce(k.amount, 1) AS amount,
                                   coalesce(k.now, clock) AS now,
                                   CASE algorithms[coalesce(k.rule, 1)] WHEN 5 THEN 4
                                        ELSE algorithms[coalesce(k.rule, 1)] END AS algorithm,
                                   limits[coalesce(k.rule, 1)] AS max,
                                   windows[coalesce(k.rule, 1)] AS win,
                                   bursts[coalesce(k.rule, 1)] AS burst,
                                   precisions[coalesce(k.rule, 1)] AS width
                              FROM unnest(keys, rules, amounts, nows) WITH ORDINALITY
                                   AS k (key, rule, amount, now, slot)
                            OFFSET 0) AS w
                    OFFSET 0) AS u
             WHERE r.key = u.key AND r.locked_until IS NULL
               AND weir.may_pass(@, u.max, u.win, u.burst, u.life, u.amount, u.now, r.at, r.used,
                                 r.other, r.oldest, r.log)
            RETURNING u.slot, r.at, r.used, r.other
        )
        SELECT array_agg(c.slot::integer), array_agg(c.at), array_agg(c.used), array_agg(c.other)
          INTO passed, ats, useds, others
          FROM charged c;$part$;
    -- The usual sliding window has no expired bucket, and few columns change.
    window_of CONSTANT text := $part$
        life := win + width - 1;
        bucket := weir.bucket(width, clock);
        UPDATE weir.states r
           SET at = bucket, used = r.used + amount,
               other = CASE WHEN r.at = bucket THEN r.other ELSE 0 END + amount,
               log = CASE WHEN r.at = bucket THEN r.log ELSE r.log || ARRAY[r.at, r.other] END,
               expires = bucket + life, room = NULL
         WHERE r.key = charge_one.key AND r.locked_until IS NULL AND r.at <= bucket
           AND r.oldest + life > clock
           AND r.used > 0 AND r.used + amount <= max
        RETURNING ARRAY[r.at, r.used, r.other, clock] INTO answer;
        IF FOUND THEN
            RETURN answer;
        END IF;$part$;
    branches CONSTANT text := $part$
    IF algorithm = 2 THEN@window@2
    ELSIF algorithm = 4 OR algorithm = 5 THEN@4
    ELSIF algorithm = 1 THEN@1
    ELSIF algorithm = 3 THEN@3
    ELSIF algorithm = 15 THEN@15
    ELSE@u.algorithm
    END IF;$part$;
    one_of text := branches;
    many_of text := branches;
    kind text;
BEGIN
    one_of := replace(one_of, '@window', window_of);
    many_of := replace(many_of, '@window', '');
    FOREACH kind IN ARRAY ARRAY['15', '4', '2', '1', '3', 'u.algorithm'] LOOP
        one_of := replace(one_of, '@' || kind, CASE kind WHEN 'u.algorithm' THEN ' NULL;'
                                               ELSE replace(one, '@', kind) END);
        many_of := replace(many_of, '@' || kind, replace(many, '@', kind));
    END LOOP;

    EXECUTE format($function$
CREATE OR REPLACE FUNCTION weir.charge_one(
    key uuid, algorithm integer, max bigint, win bigint, burst bigint, width bigint,
    amount bigint, now bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    clock CONSTANT bigint := coalesce(
        now, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint);
    life bigint;   -- lifetime of a bucket of a sliding window
    bucket bigint; -- its start
    answer bigint[];
BEGIN%s
    IF answer IS NULL THEN
        SELECT ARRAY[j.allowed[1]::integer, j.remaining[1], j.retry_after[1], j.reset_after[1],
                     j.delay[1]]
          INTO answer
          FROM weir.judge(ARRAY[key], ARRAY[algorithm], ARRAY[max], ARRAY[win], ARRAY[burst],
                          ARRAY[width], '{1}', '{1}', NULL, NULL, ARRAY[amount], ARRAY[now]) AS j;
    END IF;
    RETURN answer;
END $$
    $function$, one_of);

    EXECUTE format($function$
CREATE OR REPLACE FUNCTION weir.charge_many(
    keys uuid[], algorithm integer,
    algorithms integer[], limits bigint[], windows bigint[], bursts bigint[], precisions bigint[],
    rules integer[], amounts bigint[], nows bigint[], counts integer[], costs bigint[],
    OUT passed integer[], OUT ats bigint[], OUT useds bigint[], OUT others bigint[],
    OUT clock bigint,
    OUT allowed boolean[], OUT remaining bigint[], OUT retry_after bigint[],
    OUT reset_after bigint[], OUT delay bigint[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Nested loop in key order, by the index.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    rest integer[];    -- slots
    firsts integer[];  -- their first questions
    missing integer[]; -- slots without a row
    made uuid[];
    judged uuid[];
    judged_slots integer[];
    judged_rules integer[];
    judged_costs bigint[];
    judged_nows bigint[];
    next integer;
    first integer;
BEGIN
    clock := floor(date_part('epoch', clock_timestamp()) * 1000)::bigint;%s
    IF cardinality(passed) = cardinality(keys) THEN
        RETURN;
    END IF;

    next := 1;
    first := 1;
    FOR slot IN 1..cardinality(keys) LOOP
        IF slot = passed[next] THEN
            next := next + 1;
        ELSE
            rest := rest || slot;
            firsts := firsts || first;
        END IF;
        first := first + coalesce(counts[slot], 1);
    END LOOP;

    SELECT array_agg(u.slot ORDER BY u.slot) INTO missing
      FROM unnest(rest) AS u (slot)
     WHERE NOT EXISTS (SELECT FROM weir.states r WHERE r.key = keys[u.slot]);
    IF cardinality(missing) < cardinality(keys) THEN
        -- Out of key order from here. A row that did not pass is locked too, if the UPDATE waited.
        PERFORM set_config('lock_timeout', '20', true);
    END IF;
    WITH made AS (
        INSERT INTO weir.states AS r (key, at, used, other, oldest, expires, due)
        SELECT u.key, f.at, f.used, f.other, f.oldest, f.expires, f.expires + 60000
          FROM (SELECT keys[k.slot] AS key, coalesce(amounts[k.slot], 1) AS amount,
                       coalesce(nows[k.slot], clock) AS now,
                       CASE algorithms[coalesce(rules[k.slot], 1)] WHEN 5 THEN 4
                            ELSE algorithms[coalesce(rules[k.slot], 1)] END AS algorithm,
                       limits[coalesce(rules[k.slot], 1)] AS max,
                       windows[coalesce(rules[k.slot], 1)] AS win,
                       bursts[coalesce(rules[k.slot], 1)] AS burst,
                       precisions[coalesce(rules[k.slot], 1)] AS width
                  FROM unnest(missing) AS k (slot)
                OFFSET 0) AS u,
               weir.fresh(u.algorithm, u.max, u.win, u.burst, u.win + u.width - 1,
                          weir.bucket(u.width, u.now), u.amount, u.now) AS f
         ORDER BY u.key
            ON CONFLICT DO NOTHING
        RETURNING r.key, r.at, r.used, r.other
    )
    SELECT array_agg(m.key), ats || array_agg(m.at), useds || array_agg(m.used),
           others || array_agg(m.other)
      INTO made, ats, useds, others
      FROM made m;

    next := 1;
    FOR i IN 1..cardinality(rest) LOOP
        IF keys[rest[i]] = made[next] THEN
            next := next + 1;
            passed := passed || rest[i];
        ELSE
            judged := judged || keys[rest[i]];
            FOR question IN firsts[i]..firsts[i] + coalesce(counts[rest[i]], 1) - 1 LOOP
                judged_slots := judged_slots || cardinality(judged);
                judged_rules := judged_rules || coalesce(rules[rest[i]], 1);
                judged_costs := judged_costs || coalesce(costs[question], 1);
                judged_nows := judged_nows || nows[rest[i]];
            END LOOP;
        END IF;
    END LOOP;
    IF judged IS NULL THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '20', true);
    SELECT j.allowed, j.remaining, j.retry_after, j.reset_after, j.delay
      INTO allowed, remaining, retry_after, reset_after, delay
      FROM weir.judge(judged, algorithms, limits, windows, bursts, precisions, judged_slots,
                      judged_rules, NULL, NULL, judged_costs, judged_nows) AS j;
END $$
    $function$, many_of);
END $make$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.charge_one(uuid, integer, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.charge_many(uuid[], integer, integer[], bigint[], bigint[], bigint[], bigint[], integer[],
                     bigint[], bigint[], integer[], bigint[])
    TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (7, 'charge') ON CONFLICT DO NOTHING;
COMMIT;
