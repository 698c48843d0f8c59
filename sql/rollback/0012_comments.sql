-- 0012_comments.sql - keeps the comments: they are dropped with their objects.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 12;
    END IF;
END $$;
COMMIT;
