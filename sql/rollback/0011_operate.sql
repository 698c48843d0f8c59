-- 0011_operate.sql - drops the functions for operators; their changes stay.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.set_override(text, jsonb, text, text, bigint, bigint, text, text, interval, text, text,
                      boolean, text),
    weir.set_plan(text, jsonb, text, interval, text, text),
    weir.set_mode(text, text, interval, text, text, boolean),
    weir.clear_override(text, jsonb, text, text, text, text, boolean, text),
    weir.clear_plan(jsonb, text, text, text),
    weir.clear_mode(text, text, text),
    weir.clear_of(text, uuid, text, text, text, text),
    weir.clear(bigint, text, text),
    weir.in_force(), weir.stats(text, interval), weir.plan_key(jsonb),
    weir.overridden(text, jsonb, text, text, boolean, text),
    weir.append_change(text, text, uuid, bigint, bigint, interval, text, text, text, text, text, text),
    weir.check_line(text, text, integer);
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 11;
        REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM weir_operator;
    END IF;
END $$;
COMMIT;
