-- 0010_locked_keys.sql - lets questions wait for a locked key.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS weir.locked_keys(uuid[], integer);
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 10;
    END IF;
END $$;
COMMIT;
