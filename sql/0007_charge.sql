-- 0007_charge.sql - the short way of most questions: checks of one rule on one key, that pass.
--
-- weir.judge() reads, thinks and then writes. In here a key's row is charged by an UPDATE that asks
-- in its WHERE whether all that is asked of the key may pass, or made by an INSERT if it is
-- missing. What they leave undone, as it would be refused, is judged as ever.
--
-- The answer to what was charged is the state that it left behind, by which whoever asked can tell
-- what each question found: src/store/postgres/charge.c does.
BEGIN;
SET LOCAL client_min_messages = warning;

-- ---- the arithmetic ----------------------------------------------------------------------------
--
-- Parts of the statements below, which have them written in when they are planned; only those of
-- logs of which some has left the window are called. What a row holds comes last.
DROP FUNCTION IF EXISTS -- whose parameters were others once
    weir.live_log, weir.fresh, weir.may_pass, weir.next_at, weir.next_used, weir.next_other,
    weir.next_oldest, weir.next_log, weir.next_expires;

-- What is used of a bucket by now.
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

-- Of a log, what starts before then: its count, and the log without it.
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

-- The start of the bucket of a sliding window; none, if its limit is 0.
CREATE OR REPLACE FUNCTION weir.bucket(width bigint, now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT now - now % nullif(width, 0)
$$;

-- What counts in a sliding window, whose buckets do so for `life` ms.
CREATE OR REPLACE FUNCTION weir.live(
    life bigint, now bigint, at bigint, used bigint, oldest bigint, log bigint[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN at + life <= now THEN 0
                WHEN oldest + life > greatest(now, at) THEN used
                ELSE used - weir.log_gone(log, greatest(now, at) - life + 1) END
$$;

-- May it pass? A cell that is too far from now for 64 bits of ns is left undone.
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

-- What the row holds then.
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

-- What the row of a new key holds; none, if it does not pass.
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

-- weir.charge() charges `amount`, at least 1, to one key. `now` NULL: the
-- clock here. The rule is as weir.judge() has it.
--
-- If it passes, the answer is what the row then holds in at, used and other, and the time. If not,
-- it is what weir.judge() says: allowed (0 or 1), remaining, retry_after, reset_after and delay.
--
-- weir.charge_many() charges many keys, each once and ascending, one or more questions each:
--
--   algorithm  of all rules; NULL: they differ
--   algorithms, limits, windows, bursts, precisions
--              of the rules there are, as weir.judge() has them
--   rules      of each key: its place among the rules, from 1; NULL: the first
--   amounts    of each key: what its questions cost together, or anything more than its rule can
--              ever hold; NULL: 1
--   nows       of each key; NULL, all or one: the clock here
--   counts     of each key: how many questions it has; NULL: one each
--   costs      of each question, those of the first key first; NULL: 1
--
-- `passed` are the places of the keys all of whose questions pass; ats, useds and others are what
-- their rows hold then. Of the questions of the others, in their order, the arrays below are what
-- weir.judge() answers. NULL: there are none.
--
-- Both keep the rules of weir.judge(). Rows are charged in the order of their keys; what is made and
-- judged afterwards is out of this order: so what another holds is not waited for long, the call
-- fails with 55P03, and nothing has happened.
--
-- For each algorithm there is a statement in which the arithmetic of others does not appear, as to
-- get a statement ready takes time for all that is in it. They are made of one here.
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
         WHERE r.key = charge.key
           AND weir.may_pass(@, max, win, burst, life, amount, clock, r.at, r.used, r.other,
                             r.oldest, r.log)
        RETURNING ARRAY[r.at, r.used, r.other, clock] INTO answer;
        IF answer IS NULL THEN
            IF NOT EXISTS (SELECT FROM weir.states r WHERE r.key = charge.key) THEN
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
             WHERE r.key = u.key
               AND weir.may_pass(@, u.max, u.win, u.burst, u.life, u.amount, u.now, r.at, r.used,
                                 r.other, r.oldest, r.log)
            RETURNING u.slot, r.at, r.used, r.other
        )
        SELECT array_agg(c.slot::integer), array_agg(c.at), array_agg(c.used), array_agg(c.other)
          INTO passed, ats, useds, others
          FROM charged c;$part$;
    -- Of a sliding window from which nothing has left, as is usual, little changes.
    window_of CONSTANT text := $part$
        life := win + width - 1;
        bucket := weir.bucket(width, clock);
        UPDATE weir.states r
           SET at = bucket, used = r.used + amount,
               other = CASE WHEN r.at = bucket THEN r.other ELSE 0 END + amount,
               log = CASE WHEN r.at = bucket THEN r.log ELSE r.log || ARRAY[r.at, r.other] END,
               expires = bucket + life, room = NULL
         WHERE r.key = charge.key AND r.at <= bucket AND r.oldest + life > clock
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
CREATE OR REPLACE FUNCTION weir.charge(
    key uuid, algorithm integer, max bigint, win bigint, burst bigint, width bigint,
    amount bigint, now bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    clock CONSTANT bigint := coalesce(
        now, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint);
    life bigint;   -- of a bucket of a sliding window
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
-- Row by row in the order of keys, and by the index.
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
    missing integer[]; -- those of them that have no row
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
        -- What follows is out of order: also a row that did not pass is locked, if it was waited for.
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
    weir.charge(uuid, integer, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.charge_many(uuid[], integer, integer[], bigint[], bigint[], bigint[], bigint[], integer[],
                     bigint[], bigint[], integer[], bigint[])
    TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (7, 'charge') ON CONFLICT DO NOTHING;
COMMIT;
