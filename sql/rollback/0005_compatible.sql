-- 0005_compatible.sql - drops the drop-in functions.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
BEGIN
    IF to_regprocedure('weir.unexpose()') IS NOT NULL THEN
        PERFORM weir.unexpose();
    END IF;
END $$;
DROP FUNCTION IF EXISTS weir.expose(text), weir.unexpose(),
    weir.check_rate_limit(text, integer, integer),
    weir.upsert_rate_limit(text, text, timestamptz, timestamptz),
    weir.upsert_rate_limit(text, text, timestamptz, timestamptz, integer),
    weir.increment_rate_limit(text, integer, date),
    weir.count_in_window(text, bytea, timestamptz, bigint, bigint),
    weir.count_in_window(text, bytea, timestamptz, bigint, bigint, bigint);
DROP TYPE IF EXISTS weir.request_count, weir.daily_count;
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 5;
    END IF;
END $$;
COMMIT;
