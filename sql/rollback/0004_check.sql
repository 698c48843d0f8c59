-- 0004_check.sql - takes back checks by plain SQL.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.check(text, jsonb, bigint, text, boolean, text),
    weir.peek(text, jsonb, bigint, text, text),
    weir.refund(text, jsonb, bigint, text, text),
    weir.reset(text, jsonb, text, text),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean),
    weir.ask_limit(text, bytea, bigint, bigint, text, bigint, bigint, bigint, integer, bigint),
    weir.ask(text, jsonb, text, bigint, text, integer),
    weir.tag_of_rule(bytea, text, jsonb, jsonb),
    weir.sole_attribute(text, jsonb), weir.check_attributes(jsonb),
    weir.check_document(text, jsonb), weir.push_policies(jsonb), weir.pushed_policies(),
    weir.compare_policies(jsonb);
DO $$
BEGIN
    IF to_regtype('weir.answer') IS NOT NULL THEN
        DROP FUNCTION IF EXISTS weir.count_answer(weir.answer, uuid, boolean);
    END IF;
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 4;
    END IF;
END $$;
COMMIT;
