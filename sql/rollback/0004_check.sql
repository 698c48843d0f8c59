-- 0004_check.sql - drops checks by plain SQL.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.check(text, jsonb, bigint, text, boolean, text, jsonb),
    weir.peek(text, jsonb, bigint, text, text, jsonb),
    weir.refund(text, jsonb, bigint, text, text, jsonb),
    weir.charge(text, jsonb, bigint, text, text, jsonb),
    weir.reset(text, jsonb, text, text),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean, text),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean, text, text, bigint),
    weir.check_many(jsonb), weir.prepare_json(jsonb, bytea),
    weir.prepare_nameless(text, bigint, bigint, text, bigint, bigint, bigint, integer, bytea, text,
                          bigint),
    weir.prepare_named(text, text, bigint, bigint, text, bigint, bigint, bigint, integer, bytea, text,
                       bigint),
    weir.prepare_policy(text, jsonb, text, bigint, text, integer, bytea, jsonb),
    weir.prepare(text, jsonb, bytea, jsonb, bigint, text, integer, jsonb),
    weir.costs_of(jsonb, bigint, jsonb),
    weir.ask_limit(text, bytea, bigint, bigint, text, bigint, bigint, bigint, integer, bigint, text,
                   bigint),
    weir.windows_of_limit(text, bigint, integer, bigint),
    weir.ask(text, jsonb, text, bigint, text, integer, jsonb),
    weir.tag_of_rule(bytea, text, jsonb, jsonb), weir.document_of(text),
    weir.sole_attribute(text, jsonb), weir.check_attributes(jsonb),
    weir.check_document(text, jsonb), weir.push_policies(jsonb), weir.pushed_policies(),
    weir.compare_policies(jsonb);
DO $$
BEGIN
    IF to_regtype('weir.prepared') IS NOT NULL THEN
        DROP FUNCTION IF EXISTS
            weir.conclude(weir.prepared, bytea, integer, boolean[], bigint[], bigint[], bigint[],
                          bigint[]),
            weir.answer_prepared(weir.prepared, bytea), weir.judge_prepared(weir.prepared[]);
        DROP TYPE weir.prepared;
    END IF;
    IF to_regtype('weir.answer') IS NOT NULL THEN
        DROP FUNCTION IF EXISTS weir.count_answer(weir.answer, uuid, boolean);
    END IF;
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 4;
    END IF;
END $$;
COMMIT;
