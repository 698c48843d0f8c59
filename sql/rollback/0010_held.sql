-- 0010_held.sql - lets all wait for whoever holds a key.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS weir.held(uuid[]), weir.held(uuid[], integer);
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 10;
    END IF;
END $$;
COMMIT;
