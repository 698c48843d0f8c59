-- 0009_overrule.sql - checks by plain SQL use policies as they were pushed again.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.apply_changes(text, jsonb, bytea, jsonb, text, integer),
    weir.assigned_plan(text, bytea, jsonb, bigint),
    weir.with_numbers(jsonb, text, bigint, bigint);
DO $$
BEGIN
    IF to_regclass('weir.ledger') IS NOT NULL THEN
        DROP FUNCTION IF EXISTS
            weir.apply_change(jsonb, weir.ledger, text, integer), weir.in_force_for(text, uuid, bigint);
        DROP INDEX IF EXISTS weir.ledger_policy, weir.ledger_key;
    END IF;
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 9;
    END IF;
END $$;
COMMIT;
