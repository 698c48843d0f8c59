-- 0006_upkeep.sql - removal of expired rows, and the history for dashboards and alerts.
BEGIN;
SET LOCAL client_min_messages = warning;

-- Decisions by the minute. Servers add theirs from time to time by weir.report(); those of SQL
-- callers come from weir.tally. No decision waits for either.
CREATE TABLE IF NOT EXISTS weir.history (
    minute     timestamptz NOT NULL,
    policy     text NOT NULL,
    rule       text NOT NULL, -- '(check)': whole checks; else the decisions of this rule
    allowed    bigint NOT NULL,
    denied     bigint NOT NULL,
    shadow_denied bigint NOT NULL, -- allowed, but denied by a rule in shadow or a shadow limit
    PRIMARY KEY (minute, policy, rule)
);
-- Of all decisions, those that a server made while Postgres was unreachable.
ALTER TABLE weir.history ADD COLUMN IF NOT EXISTS fallback bigint NOT NULL DEFAULT 0;
-- Beside decisions: what has happened, and was counted whatever the limits say. Of whole policies.
ALTER TABLE weir.history ADD COLUMN IF NOT EXISTS charges bigint NOT NULL DEFAULT 0;
-- The same by the hour, kept longer. Both are written at once, so there is no later rollup.
CREATE TABLE IF NOT EXISTS weir.history_hours (
    hour       timestamptz NOT NULL,
    policy     text NOT NULL,
    rule       text NOT NULL,
    allowed    bigint NOT NULL,
    denied     bigint NOT NULL,
    shadow_denied bigint NOT NULL,
    fallback   bigint NOT NULL,
    PRIMARY KEY (hour, policy, rule)
);
ALTER TABLE weir.history_hours ADD COLUMN IF NOT EXISTS charges bigint NOT NULL DEFAULT 0;
-- Denials by tag, which logs have too.
CREATE TABLE IF NOT EXISTS weir.denials (
    minute timestamptz NOT NULL,
    policy text NOT NULL,
    rule   text NOT NULL,
    tag    text NOT NULL,
    denied bigint NOT NULL,
    PRIMARY KEY (minute, policy, rule, tag)
);
ALTER TABLE weir.history ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.history_hours ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.denials ENABLE ROW LEVEL SECURITY;

-- Work for one session at a time: the session locks its row here. No other role can take this lock.
CREATE TABLE IF NOT EXISTS weir.turns (
    what text PRIMARY KEY
);
INSERT INTO weir.turns (what) VALUES ('upkeep') ON CONFLICT DO NOTHING;
ALTER TABLE weir.turns ENABLE ROW LEVEL SECURITY;

-- Add a report to both:
--   {"decisions": [{"minute_ms", "policy", "rule", "allowed", "denied", "shadow_denied", "fallback", "charges"}],
--    "denials": [{"minute_ms", "policy", "rule", "tag", "denied"}]}
CREATE OR REPLACE FUNCTION weir.report(p_report jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO weir.history AS h (minute, policy, rule, allowed, denied, shadow_denied, fallback,
                 charges)
    SELECT to_timestamp(d.minute_ms / 60000 * 60), d.policy, d.rule,
           sum(coalesce(d.allowed, 0)), sum(coalesce(d.denied, 0)), sum(coalesce(d.shadow_denied, 0)),
           sum(coalesce(d.fallback, 0)), sum(coalesce(d.charges, 0))
      FROM jsonb_to_recordset(p_report->'decisions') AS d (minute_ms bigint, policy text, rule text,
               allowed bigint, denied bigint, shadow_denied bigint, fallback bigint, charges bigint)
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (minute, policy, rule) DO UPDATE
           SET allowed = h.allowed + excluded.allowed, denied = h.denied + excluded.denied,
               shadow_denied = h.shadow_denied + excluded.shadow_denied,
               fallback = h.fallback + excluded.fallback,
               charges = h.charges + excluded.charges;
    INSERT INTO weir.history_hours AS h (hour, policy, rule, allowed, denied, shadow_denied, fallback,
                 charges)
    SELECT to_timestamp(d.minute_ms / 3600000 * 3600), d.policy, d.rule,
           sum(coalesce(d.allowed, 0)), sum(coalesce(d.denied, 0)), sum(coalesce(d.shadow_denied, 0)),
           sum(coalesce(d.fallback, 0)), sum(coalesce(d.charges, 0))
      FROM jsonb_to_recordset(p_report->'decisions') AS d (minute_ms bigint, policy text, rule text,
               allowed bigint, denied bigint, shadow_denied bigint, fallback bigint, charges bigint)
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (hour, policy, rule) DO UPDATE
           SET allowed = h.allowed + excluded.allowed, denied = h.denied + excluded.denied,
               shadow_denied = h.shadow_denied + excluded.shadow_denied,
               fallback = h.fallback + excluded.fallback,
               charges = h.charges + excluded.charges;
    INSERT INTO weir.denials AS l (minute, policy, rule, tag, denied)
    SELECT date_trunc('minute', to_timestamp(d.minute_ms / 1000)), d.policy, d.rule, d.tag,
           sum(d.denied)
      FROM jsonb_to_recordset(p_report->'denials') AS d (minute_ms bigint, policy text, rule text,
               tag text, denied bigint)
     GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (minute, policy, rule, tag) DO UPDATE SET denied = l.denied + excluded.denied;
$$;

-- The decisions from p_since until before p_until, in steps of p_step, all in ms. Minutes are read
-- as far back as they are kept, hours before that. NULL: any policy, any rule.
DROP FUNCTION IF EXISTS weir.read_history(text, text, bigint, bigint, bigint); -- without charges
CREATE OR REPLACE FUNCTION weir.read_history(
    p_policy text, p_rule text, p_since bigint, p_until bigint, p_step bigint)
RETURNS TABLE (policy text, rule text, at_ms bigint, allowed bigint, denied bigint,
               shadow_denied bigint, fallback bigint, charges bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH minutes_from AS (
        SELECT date_trunc('hour', now() - interval '7 days', 'UTC') + interval '1 hour' AS at
    ), counted AS (
        SELECT h.minute AS at, h.policy, h.rule, h.allowed, h.denied, h.shadow_denied, h.fallback,
               h.charges
          FROM weir.history h, minutes_from m
         WHERE h.minute >= greatest(m.at, to_timestamp(p_since / 1000.0))
           AND h.minute < to_timestamp(p_until / 1000.0)
         UNION ALL
        SELECT h.hour, h.policy, h.rule, h.allowed, h.denied, h.shadow_denied, h.fallback,
               h.charges
          FROM weir.history_hours h, minutes_from m
         WHERE h.hour >= to_timestamp(p_since / 1000.0)
           AND h.hour < least(m.at, to_timestamp(p_until / 1000.0))
    )
    SELECT c.policy, c.rule, (extract(epoch FROM c.at)::bigint * 1000) / p_step * p_step,
           sum(c.allowed)::bigint, sum(c.denied)::bigint, sum(c.shadow_denied)::bigint,
           sum(c.fallback)::bigint, sum(c.charges)::bigint
      FROM counted c
     WHERE (p_policy IS NULL OR c.policy = p_policy) AND (p_rule IS NULL OR c.rule = p_rule)
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
$$;

-- Sum up the tally of past minutes: up to p_most rows, oldest first, by the index. Returns how many
-- rows it summed up; p_most means that there may be more.
DROP FUNCTION IF EXISTS weir.sum_up();
CREATE OR REPLACE FUNCTION weir.sum_up(p_most bigint) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    this_minute CONSTANT timestamptz := date_trunc('minute', clock_timestamp());
    summed_up bigint;
    report jsonb;
BEGIN
    WITH taken AS (
        DELETE FROM weir.tally WHERE ctid = ANY (ARRAY(
            SELECT t.ctid FROM weir.tally t WHERE t.minute < this_minute
             ORDER BY t.minute LIMIT p_most))
        RETURNING *
    ), decisions AS ( -- for SQL callers, only the deciding rule is known
        SELECT extract(epoch FROM t.minute)::bigint * 1000 AS minute_ms, t.policy, r.rule,
               count(*) FILTER (WHERE t.allowed) AS allowed,
               count(*) FILTER (WHERE NOT t.allowed) AS denied,
               count(*) FILTER (WHERE t.allowed AND t.shadow_denied) AS shadow_denied
          FROM taken t, unnest(ARRAY['(check)', t.rule]) AS r (rule)
         GROUP BY t.minute, t.policy, r.rule
    ), denials AS (
        SELECT extract(epoch FROM minute)::bigint * 1000 AS minute_ms, policy, rule, tag,
               count(*) AS denied
          FROM taken WHERE tag IS NOT NULL GROUP BY minute, policy, rule, tag
    )
    SELECT (SELECT count(*) FROM taken), jsonb_build_object(
               'decisions', (SELECT coalesce(jsonb_agg(d), '[]') FROM decisions d),
               'denials', (SELECT coalesce(jsonb_agg(l), '[]') FROM denials l))
      INTO summed_up, report;
    IF summed_up > 0 THEN
        PERFORM weir.report(report);
    END IF;
    RETURN summed_up;
END $$;

-- Read up to p_most rows that are due, oldest first, by the index, and no others. Remove those that
-- expired at least a minute ago; set `due` of the others to their expiry. SKIP LOCKED: a locked row
-- is left for later.
CREATE OR REPLACE FUNCTION weir.tidy_states(
    p_most integer, OUT looked_at integer, OUT removed integer)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    clock CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    slip CONSTANT bigint := 60000; -- ms by which a clock may step back without minting anything
    gone uuid[];
    kept uuid[];
BEGIN
    SELECT array_agg(d.key) FILTER (WHERE d.expires + slip <= clock),
           array_agg(d.key) FILTER (WHERE d.expires + slip > clock)
      INTO gone, kept
      FROM (SELECT s.key, s.expires FROM weir.states s WHERE s.due <= clock
             ORDER BY s.due LIMIT p_most FOR UPDATE SKIP LOCKED) d;
    looked_at := coalesce(cardinality(gone), 0) + coalesce(cardinality(kept), 0);
    DELETE FROM weir.states WHERE key = ANY (gone);
    GET DIAGNOSTICS removed = ROW_COUNT;
    UPDATE weir.states SET due = expires + slip WHERE key = ANY (kept);
END $$;

-- Read up to p_most records of reservations that are due, oldest first, and remove those that are not
-- known any more. Returns how many it read. A record is left for later if it is locked, or one of its
-- keys: upkeep waits for no lock.
CREATE OR REPLACE FUNCTION weir.tidy_reservations(p_most integer) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    clock CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    known_for CONSTANT bigint := 600000 + 60000; -- ms after expiry, and by which a clock may step back
    r weir.reservations;
    locked uuid[];
    looked_at integer := 0;
BEGIN
    FOR r IN SELECT * FROM weir.reservations w WHERE w.due <= clock ORDER BY w.due LIMIT p_most
                FOR UPDATE SKIP LOCKED LOOP
        looked_at := looked_at + 1;
        IF r.expires + known_for > clock THEN
            UPDATE weir.reservations w SET due = r.expires + known_for WHERE w.id = r.id;
            CONTINUE;
        END IF;
        SELECT array_agg(l.key) INTO locked
          FROM (SELECT s.key FROM weir.states s WHERE s.key = ANY (r.keys)
                 ORDER BY s.key FOR UPDATE SKIP LOCKED) AS l;
        IF NOT EXISTS (SELECT FROM weir.states s WHERE s.key = ANY (r.keys)
                          AND s.key <> ALL (coalesce(locked, '{}'))) THEN
            PERFORM weir.drop_expired(r);
            DELETE FROM weir.reservations w WHERE w.id = r.id;
        END IF;
    END LOOP;
    RETURN looked_at;
END $$;

-- One round of upkeep, small enough not to disturb checks; one session at a time does it. Returns
-- the amount of work, in rows; p_most means that there may be more.
CREATE OR REPLACE FUNCTION weir.tidy(p_most integer DEFAULT 500) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    per_state CONSTANT bigint := 20; -- rows of the tally that cost as much as one state
    done record;
    records integer;
    summed_up bigint := 0;
BEGIN
    PERFORM FROM weir.turns WHERE what = 'upkeep' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- After a crash a removed row may be back; it is then removed again.
    PERFORM set_config('synchronous_commit', 'off', true);
    done := weir.tidy_states(p_most);
    records := greatest(weir.release_due(p_most), weir.tidy_reservations(p_most));
    IF done.looked_at < p_most THEN -- expired states come first
        summed_up := weir.sum_up(per_state * p_most);
        DELETE FROM weir.history WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM weir.history WHERE minute < now() - interval '7 days' LIMIT p_most));
        DELETE FROM weir.history_hours WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM weir.history_hours WHERE hour < now() - interval '90 days'
             LIMIT p_most));
        DELETE FROM weir.denials WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM weir.denials WHERE minute < now() - interval '7 days' LIMIT p_most));
    END IF;
    RETURN greatest(done.looked_at, records, summed_up / per_state);
END $$;

-- All upkeep that is due, one transaction for each round: for pg_cron or another scheduler.
CREATE OR REPLACE PROCEDURE weir.upkeep() LANGUAGE plpgsql AS $$
BEGIN
    WHILE weir.tidy(500) = 500 LOOP
        COMMIT; -- a transaction for each round
    END LOOP;
END $$;

-- A name that many projects have in their schedulers. Returns how many rows it removed: 0 while
-- another session does upkeep. It is one transaction, so it stops early; the next call continues.
CREATE OR REPLACE FUNCTION weir.cleanup_old_rate_limit_buckets() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    total integer := 0;
    done record;
BEGIN
    PERFORM FROM weir.turns WHERE what = 'upkeep' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR round IN 1..20 LOOP
        done := weir.tidy_states(500);
        total := total + done.removed;
        EXIT WHEN done.looked_at < 500;
    END LOOP;
    FOR round IN 1..20 LOOP
        EXIT WHEN weir.tidy_reservations(500) < 500;
    END LOOP;
    FOR round IN 1..10 LOOP
        EXIT WHEN weir.sum_up(10000) < 10000;
    END LOOP;
    RETURN total;
END $$;

-- ---- views --------------------------------------------------------------------------------------

-- Whole checks by the minute: those in the history, and those still in the tally.
CREATE OR REPLACE VIEW weir.checks AS
SELECT minute, policy, sum(allowed)::bigint AS allowed, sum(denied)::bigint AS denied,
       sum(shadow_denied)::bigint AS shadow_denied
  FROM (SELECT minute, policy, allowed, denied, shadow_denied
          FROM weir.history WHERE rule = '(check)'
         UNION ALL
        SELECT minute, policy, count(*) FILTER (WHERE allowed), count(*) FILTER (WHERE NOT allowed),
               count(*) FILTER (WHERE allowed AND shadow_denied)
          FROM weir.tally GROUP BY minute, policy) AS counted
 GROUP BY minute, policy;

-- The deny rate of each policy in the last 7 days.
CREATE OR REPLACE VIEW weir.deny_rate AS
SELECT policy, sum(allowed + denied)::bigint AS checks, sum(denied)::bigint AS denied,
       round(100.0 * sum(denied) / nullif(sum(allowed + denied), 0), 2) AS deny_rate_percent,
       count(DISTINCT minute) AS minutes,
       count(DISTINCT minute) FILTER (WHERE denied > 0) AS denied_minutes,
       sum(shadow_denied)::bigint AS shadow_denied
  FROM weir.checks
 WHERE minute > now() - interval '7 days'
 GROUP BY policy
 ORDER BY deny_rate_percent DESC NULLS LAST, policy;

-- The identities denied most in the last hour, by tag.
CREATE OR REPLACE VIEW weir.most_denied AS
SELECT policy, rule, tag, sum(denied)::bigint AS denied,
       count(DISTINCT minute) AS denied_minutes, max(minute) AS last_minute
  FROM (SELECT minute, policy, rule, tag, denied FROM weir.denials
         WHERE minute > now() - interval '1 hour'
         UNION ALL
        SELECT minute, policy, rule, tag, count(*) FROM weir.tally
         WHERE tag IS NOT NULL AND minute > now() - interval '1 hour'
         GROUP BY minute, policy, rule, tag) AS counted
 GROUP BY policy, rule, tag
 ORDER BY denied DESC, policy, rule, tag;

-- The minutes of the last day in which a policy denied a request.
CREATE OR REPLACE VIEW weir.denied_minutes AS
SELECT minute, policy, allowed, denied
  FROM weir.checks
 WHERE denied > 0 AND minute > now() - interval '1 day'
 ORDER BY minute DESC, policy;

REVOKE ALL ON ALL TABLES IN SCHEMA weir FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA weir FROM PUBLIC;
GRANT SELECT ON weir.checks, weir.deny_rate, weir.most_denied, weir.denied_minutes
    TO weir_viewer;
GRANT EXECUTE ON FUNCTION weir.cleanup_old_rate_limit_buckets() TO weir_caller;
GRANT EXECUTE ON FUNCTION weir.report(jsonb), weir.tidy(integer),
    weir.read_history(text, text, bigint, bigint, bigint) TO weir_server;

-- With pg_cron, upkeep runs every minute, even without a server.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pg_cron') THEN
        PERFORM cron.schedule('weir upkeep', '* * * * *', 'CALL weir.upkeep()');
    END IF;
END $$;

INSERT INTO weir.migrations (number, name) VALUES (6, 'upkeep') ON CONFLICT DO NOTHING;
COMMIT;
