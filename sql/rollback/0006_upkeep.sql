-- 0006_upkeep.sql - drops upkeep and the history.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pg_cron') THEN
        PERFORM cron.unschedule(jobname) FROM cron.job WHERE jobname = 'weir upkeep';
    END IF;
    IF to_regprocedure('weir.unexpose()') IS NOT NULL THEN
        PERFORM weir.unexpose(); -- a function of this file may be exposed
    END IF;
END $$;
DROP VIEW IF EXISTS weir.deny_rate, weir.most_denied, weir.denied_minutes, weir.checks;
DROP PROCEDURE IF EXISTS weir.upkeep();
DROP FUNCTION IF EXISTS weir.cleanup_old_rate_limit_buckets(), weir.tidy(integer),
    weir.tidy_states(integer), weir.tidy_reservations(integer), weir.sum_up(), weir.sum_up(bigint), weir.report(jsonb),
    weir.read_history(text, text, bigint, bigint, bigint);
DROP TABLE IF EXISTS weir.history, weir.history_hours, weir.denials, weir.turns;
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 6;
    END IF;
END $$;
COMMIT;
