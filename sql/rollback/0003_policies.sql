-- 0003_policies.sql - drops policies, including those that were pushed.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS weir.reject(text), weir.hmac(bytea, bytea),
    weir.key_of(bytea, text[], bytea), weir.tag_of(bytea, text[], bytea), weir.read_ip(text),
    weir.write_ip(inet, integer), weir.normal_email(text), weir.sized(text, text),
    weir.identity_of(text, jsonb, jsonb), weir.is_exempt(jsonb, jsonb),
    weir.complete(text, bigint, bigint, bigint, bigint),
    weir.windows_of(jsonb, jsonb, integer, bigint), weir.midnight(date, text),
    weir.calendar_bounds(text, text, integer, bigint), weir.check_cost(bigint);
DROP TABLE IF EXISTS weir.tally, weir.policies;
DROP TYPE IF EXISTS weir.answer;
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 3;
    END IF;
END $$;
COMMIT;
