-- 0008_ledger.sql - drops the ledger and all changes of operators.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP VIEW IF EXISTS weir.audit;
DROP FUNCTION IF EXISTS
    weir.append_entry(text, text, uuid, bigint, bigint, bigint, text, text, text, text, text, text),
    weir.read_entries(bigint, integer);
DROP TABLE IF EXISTS weir.ledger;
DROP FUNCTION IF EXISTS weir.keep_the_ledger();
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 8;
    END IF;
END $$;
COMMIT;
