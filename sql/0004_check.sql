-- 0004_check.sql - checks by plain SQL: against a policy, or with a limit that comes along.
BEGIN;
SET LOCAL client_min_messages = warning;

-- The one attribute that a bare key stands for.
CREATE OR REPLACE FUNCTION weir.sole_attribute(policy text, document jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    names text[];
    most integer;
BEGIN
    SELECT array_agg(DISTINCT name), max(jsonb_array_length(rule->'by')) INTO names, most
      FROM jsonb_array_elements(document->'rules') AS rule,
           jsonb_array_elements_text(rule->'by') AS name;
    IF names IS NULL THEN
        PERFORM weir.refuse(format('policy ''%s'' counts everyone together: leave the key out',
                                   policy));
    ELSIF cardinality(names) > 1 OR most > 1 THEN
        PERFORM weir.refuse(format('policy ''%s'' counts by several attributes: give them by name '
                                   'instead of a key', policy));
    END IF;
    RETURN names[1];
END $$;

CREATE OR REPLACE FUNCTION weir.check_attributes(attributes jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    name text;
    value jsonb;
    count integer := 0;
BEGIN
    IF jsonb_typeof(attributes) <> 'object' THEN
        PERFORM weir.refuse('attributes must be an object');
    END IF;
    FOR name, value IN SELECT * FROM jsonb_each(attributes) LOOP
        IF jsonb_typeof(value) NOT IN ('string', 'null')
           AND (jsonb_typeof(value) <> 'number' OR value::text !~ '\A-?[0-9]{1,16}\Z') THEN
            PERFORM weir.refuse(format('attribute ''%s'' must be a text or a whole number',
                                       left(name, 64)));
        END IF;
        count := count + (jsonb_typeof(value) <> 'null')::integer;
    END LOOP;
    IF count > 16 THEN
        PERFORM weir.refuse(count || ' attributes are too many: at most 16');
    END IF;
    RETURN attributes;
END $$;

-- What who asks is called by a rule of the policy.
CREATE OR REPLACE FUNCTION weir.tag_of_rule(
    secret bytea, policy text, rule jsonb, attributes jsonb)
RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT weir.tag_of(secret, ARRAY(SELECT jsonb_array_elements_text(rule->'by')),
                       weir.identity_of(policy, rule, attributes))
$$;

-- Note for the dashboards what was answered; a transaction that may not write has nothing to tell.
DROP FUNCTION IF EXISTS weir.count_answer(weir.answer, bytea, uuid, boolean);
CREATE OR REPLACE FUNCTION weir.count_answer(answer weir.answer, tag uuid, would_deny boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('weir.tally', true), '') = 'off'
       OR current_setting('transaction_read_only') = 'on' THEN
        RETURN;
    END IF;
    INSERT INTO weir.tally (minute, policy, rule, allowed, would_deny, tag)
    VALUES (date_trunc('minute', clock_timestamp()), answer.policy, answer.rule, answer.allowed,
            would_deny, replace(tag::text, '-', ''));
END $$;

-- Ask what was said; the verbs are those of weir.judge().
CREATE OR REPLACE FUNCTION weir.ask(
    p_policy text, p_attributes jsonb, p_key text, p_cost bigint, p_plan text, p_verb integer)
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    document jsonb;
    secret bytea;
    attributes jsonb;
    identity bytea;
    mode text;
    rule jsonb;
    numbers jsonb;
    rule_count integer;
    -- charges: those of enforced rules first, which are one question
    live integer := 0;
    keys uuid[];
    names text[];
    algorithms integer[];
    limits bigint[];
    windows bigint[];
    bursts bigint[];
    precisions bigint[];
    charge_of integer[] := '{}';  -- of each rule
    shadow_of integer[] := '{}';  -- of each rule: that of its shadow limit
    complete record;
    sorted uuid[];
    slots integer[];
    counts integer[];
    said record;
    answer weir.answer;
    i integer;
    best integer;
    is_shadow boolean;
    would_deny boolean;
    any_would_deny boolean := false;
    soonest boolean;
    is_exempt boolean;
    blocked integer; -- the first rule that an operator refuses by
    decider integer;
    wait bigint;
BEGIN
    PERFORM weir.check_cost(p_cost);
    SELECT p.document, s.bytes INTO document, secret
      FROM weir.policies p, weir.secret s WHERE p.name = p_policy;
    IF document IS NULL THEN
        RAISE EXCEPTION 'there is no policy ''%''', left(p_policy, 64)
            USING ERRCODE = 'undefined_object',
                  HINT = 'Put it there with: weir policy push';
    END IF;
    rule_count := jsonb_array_length(document->'rules');
    answer := ROW(true, p_policy, document->'rules'->0->>'name', 0, 0, 0, 0, 0, 'store', '[]');
    attributes := weir.check_attributes(coalesce(p_attributes, '{}'));
    IF p_key IS NOT NULL THEN
        IF attributes <> '{}' THEN
            PERFORM weir.refuse('give a key or attributes, not both');
        END IF;
        attributes := jsonb_build_object(weir.sole_attribute(p_policy, document), p_key);
    END IF;
    is_exempt := weir.is_exempt(document->'exempt', attributes);
    IF to_regproc('weir.overrule') IS NOT NULL THEN -- which comes with the ledger
        document := weir.overrule(p_policy, document, secret, attributes, p_plan,
                                  CASE WHEN NOT is_exempt THEN p_verb END);
        p_plan := coalesce(p_plan, document->>'plan');
    END IF;
    answer.source := CASE WHEN document->>'mode' = 'off' THEN 'off'
                          WHEN is_exempt THEN 'exempt'
                          ELSE 'store' END;

    FOR kind IN 0..1 LOOP -- what is enforced, then what is only tried out
        EXIT WHEN answer.source <> 'store';
        FOR r IN 1..rule_count LOOP
            rule := document->'rules'->(r - 1);
            mode := coalesce(rule->>'mode', 'enforce');
            IF mode = 'enforce' AND document->>'mode' = 'shadow' THEN
                mode := 'shadow';
            END IF;
            -- As policy_rule_reaches() has it: in shadow for those whom it has not reached.
            IF mode = 'enforce' AND rule ? 'rollout' AND (rule->>'rollout')::bigint <=
                ('x' || left(weir.key_of(secret, ARRAY['rollout of', p_policy, rule->>'name'],
                                         weir.identity_of(p_policy, rule, attributes))::text, 8)
                )::bit(32)::bigint * 10000 >> 32 THEN
                mode := 'shadow';
            END IF;
            numbers := coalesce(rule->'plans'->p_plan, rule);
            IF kind = 1 AND mode = 'enforce' THEN
                numbers := rule->'shadow_limit';
            END IF;
            CONTINUE WHEN mode = 'off' OR numbers IS NULL OR (kind = 0 AND mode <> 'enforce');
            IF rule ? 'blocked_until' AND (kind = 0 OR mode <> 'enforce') THEN
                blocked := coalesce(blocked, CASE WHEN kind = 0 THEN r END);
                numbers := jsonb_build_object('limit', 0, 'window_ms', numbers->'window_ms');
            END IF;
            identity := weir.identity_of(p_policy, rule, attributes);
            complete := weir.complete(rule->>'algorithm', (numbers->>'limit')::bigint,
                (numbers->>'window_ms')::bigint, (numbers->>'burst')::bigint,
                (numbers->>'precision_ms')::bigint);
            keys := keys || weir.key_of(secret, ARRAY[p_policy, rule->>'name', rule->>'algorithm',
                    complete.window_ms::text]
                || CASE WHEN kind = 1 AND mode = 'enforce' THEN ARRAY['shadow'] END, identity);
            algorithms := algorithms || complete.number;
            limits := limits || complete."limit";
            windows := windows || complete.window_ms;
            bursts := bursts || complete.burst;
            precisions := precisions || complete.precision_ms;
            IF kind = 1 AND mode = 'enforce' THEN
                shadow_of[r] := cardinality(keys);
            ELSE
                charge_of[r] := cardinality(keys);
            END IF;
            live := live + 1 - kind;
        END LOOP;
    END LOOP;
    IF blocked IS NOT NULL THEN
        rule := document->'rules'->(blocked - 1);
        wait := nullif((rule->>'blocked_until')::bigint, 0)
                - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
        answer := ROW(false, p_policy, rule->>'name',
                      (coalesce(rule->'plans'->p_plan, rule)->>'limit')::bigint, 0,
                      coalesce(wait, -1), coalesce(wait, 0), 0, 'blocked', '[]');
        IF p_verb = 0 THEN
            PERFORM weir.count_answer(
                answer, weir.tag_of_rule(secret, p_policy, rule, attributes), false);
        END IF;
        RETURN answer;
    END IF;
    IF keys IS NULL THEN -- exempt, or all of its rules are off
        answer.source := CASE WHEN answer.source <> 'store' THEN answer.source
                              WHEN document->'rules' @> '[{"is_exempt": true}]' THEN 'exempt'
                              ELSE 'off' END;
        rule := document->'rules'->0;
        numbers := coalesce(rule->'plans'->p_plan, rule);
        answer."limit" := (numbers->>'limit')::bigint;
        answer.remaining := coalesce((numbers->>'burst')::bigint, answer."limit");
        RETURN answer;
    END IF;

    SELECT array_agg(DISTINCT k ORDER BY k) INTO sorted FROM unnest(keys) AS k;
    SELECT array_agg(array_position(sorted, u.k) ORDER BY u.n) INTO slots
      FROM unnest(keys) WITH ORDINALITY AS u (k, n);
    counts := CASE WHEN live > 0 THEN ARRAY[live] END
              || array_fill(1, ARRAY[cardinality(keys) - live]);
    SELECT * INTO said FROM weir.judge(
        sorted, algorithms, limits, windows, bursts, precisions, slots,
        (SELECT array_agg(n) FROM generate_series(1, cardinality(keys)) AS n), counts,
        array_fill(p_verb, ARRAY[cardinality(counts)]),
        array_fill(p_cost, ARRAY[cardinality(counts)]));

    -- The rule that decides: of those that refuse, the one with the longest wait (never is the
    -- longest); if all allow, the one with the least remaining; the first on a tie. One in shadow
    -- decides only how a check looks that has no other.
    soonest := document->>'retry_after' = 'soonest';
    FOR r IN 1..rule_count LOOP
        i := charge_of[r];
        CONTINUE WHEN i IS NULL;
        is_shadow := i > live;
        would_deny := CASE WHEN is_shadow THEN NOT said.allowed[i]
                           ELSE coalesce(NOT said.allowed[shadow_of[r]], false) END;
        any_would_deny := any_would_deny OR would_deny;
        answer.rules := answer.rules || jsonb_build_object(
            'rule', document->'rules'->(r - 1)->>'name', 'limit', limits[i],
            'remaining', said.remaining[i], 'retry_after_ms', said.retry_after[i],
            'reset_after_ms', said.reset_after[i], 'delay_ms', said.delay[i],
            'allowed', said.allowed[i], 'shadow', is_shadow, 'would_deny', would_deny);
        IF NOT is_shadow THEN
            answer.delay_ms := greatest(answer.delay_ms, said.delay[i]);
        END IF;
        IF best IS NULL
           OR (CASE WHEN is_shadow <> (best > live) THEN best > live
                   WHEN said.allowed[i] <> said.allowed[best] THEN said.allowed[best]
                   WHEN said.allowed[i] THEN said.remaining[i] < said.remaining[best]
                   WHEN soonest THEN said.retry_after[i] <> -1
                        AND (said.retry_after[best] = -1
                             OR said.retry_after[i] < said.retry_after[best])
                   ELSE said.retry_after[best] <> -1
                        AND (said.retry_after[i] = -1
                             OR said.retry_after[i] > said.retry_after[best]) END) THEN
            best := i;
            decider := r;
            answer.rule := document->'rules'->(r - 1)->>'name';
        END IF;
    END LOOP;
    answer.allowed := said.allowed[best] OR best > live;
    answer."limit" := limits[best];
    answer.remaining := said.remaining[best];
    answer.retry_after_ms := CASE WHEN answer.allowed THEN 0 ELSE said.retry_after[best] END;
    answer.reset_after_ms := said.reset_after[best];
    IF NOT answer.allowed THEN
        answer.delay_ms := 0;
    END IF;
    IF p_verb = 0 THEN
        PERFORM weir.count_answer(
            answer, CASE WHEN NOT answer.allowed THEN weir.tag_of_rule(
                secret, p_policy, document->'rules'->(decider - 1), attributes) END,
            any_would_deny);
    END IF;
    RETURN answer;
END $$;

-- May this pass? If so, count it.
CREATE OR REPLACE FUNCTION weir.check(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT 1,
    p_plan text DEFAULT NULL, p_peek boolean DEFAULT false, p_key text DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan,
                    CASE WHEN p_peek THEN 1 ELSE 0 END)
$$;

-- What a check would say; counts nothing.
CREATE OR REPLACE FUNCTION weir.peek(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT 1,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan, 1)
$$;

-- Give back what was counted but did not happen, newest first.
CREATE OR REPLACE FUNCTION weir.refund(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT 1,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan, 2)
$$;

-- Forget all that is counted for an identity.
CREATE OR REPLACE FUNCTION weir.reset(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_plan text DEFAULT NULL,
    p_key text DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, 1, p_plan, 3)
$$;

-- A limit that comes along, on a bare key; p_now is for those who bring their own clock.
CREATE OR REPLACE FUNCTION weir.ask_limit(
    p_who text, p_key bytea, p_limit bigint, p_window_ms bigint, p_algorithm text, p_cost bigint,
    p_burst bigint, p_precision_ms bigint, p_verb integer, p_now bigint)
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
    rule record;
    key uuid;
    said record;
    answer weir.answer;
BEGIN
    PERFORM weir.check_cost(p_cost);
    IF coalesce(p_window_ms, 0) = 0 THEN
        PERFORM weir.refuse('the window must be at least 1 ms');
    END IF;
    rule := weir.complete(p_algorithm, p_limit, p_window_ms, p_burst, p_precision_ms);
    key := weir.key_of(secret, ARRAY['limits that come with a request', p_algorithm,
                                     p_window_ms::text], p_key);
    SELECT * INTO said FROM weir.judge(ARRAY[key], ARRAY[rule.number], ARRAY[rule."limit"],
        ARRAY[rule.window_ms], ARRAY[rule.burst], ARRAY[rule.precision_ms], ARRAY[1], ARRAY[1],
        NULL, ARRAY[p_verb], ARRAY[p_cost], ARRAY[p_now]);
    answer := ROW(said.allowed[1], p_who, 'default', p_limit, said.remaining[1],
                  said.retry_after[1], said.reset_after[1], said.delay[1], 'store', '[]');
    IF p_verb = 0 AND p_who IS NOT NULL THEN
        PERFORM weir.count_answer(
            answer, CASE WHEN NOT answer.allowed THEN weir.tag_of(secret, '{key}', p_key) END,
            false);
    END IF;
    RETURN answer;
END $$;

-- Without a policy: the same as a request to a server that has key, limit and window_ms.
CREATE OR REPLACE FUNCTION weir.limit(
    p_key text, p_limit bigint, p_window_ms bigint, p_algorithm text DEFAULT 'sliding_window',
    p_cost bigint DEFAULT 1, p_burst bigint DEFAULT NULL, p_precision_ms bigint DEFAULT NULL,
    p_peek boolean DEFAULT false)
RETURNS weir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer weir.answer;
BEGIN
    answer := weir.ask_limit('weir.limit', weir.sized('the key', coalesce(p_key, '')), p_limit,
        p_window_ms, p_algorithm, p_cost, p_burst, p_precision_ms,
        CASE WHEN p_peek THEN 1 ELSE 0 END, NULL);
    answer.policy := NULL;
    RETURN answer;
END $$;

-- ---- policies -----------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION weir.check_document(name text, document jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    is_name CONSTANT text := '\A[A-Za-z0-9_.:/-]{1,64}\Z';
    rule jsonb;
    part jsonb;
BEGIN
    IF name !~ is_name OR jsonb_typeof(document->'rules') IS DISTINCT FROM 'array'
       OR jsonb_array_length(document->'rules') NOT BETWEEN 1 AND 16
       OR coalesce(document->>'mode', 'enforce') NOT IN ('enforce', 'shadow', 'off')
       OR coalesce(document->>'on_error', 'local') NOT IN ('local', 'allow', 'deny')
       OR coalesce(document->>'retry_after', 'longest') NOT IN ('longest', 'soonest')
       OR coalesce(jsonb_typeof(document->'exempt'), 'array') <> 'array' THEN
        PERFORM weir.refuse(format('policy ''%s'' is not a policy''s document', left(name, 64)));
    END IF;
    FOR rule IN SELECT jsonb_array_elements(document->'rules') LOOP
        IF coalesce(rule->>'name' !~ is_name, true)
           OR coalesce(rule->>'mode', 'enforce') NOT IN ('enforce', 'shadow', 'off')
           OR coalesce((rule->>'ipv6_prefix')::integer, 64) NOT BETWEEN 1 AND 128
           OR coalesce(jsonb_typeof(rule->'by'), 'array') <> 'array'
           OR coalesce(jsonb_array_length(rule->'by'), 0) > 8
           OR coalesce(jsonb_typeof(rule->'plans'), 'object') <> 'object' THEN
            PERFORM weir.refuse(format('policy ''%s'': a rule is not as it should be', name));
        END IF;
        FOR part IN SELECT rule UNION ALL SELECT rule->'shadow_limit' WHERE rule ? 'shadow_limit'
                    UNION ALL SELECT value FROM jsonb_each(rule->'plans') LOOP
            PERFORM weir.complete(rule->>'algorithm', (part->>'limit')::bigint,
                (part->>'window_ms')::bigint, (part->>'burst')::bigint,
                (part->>'precision_ms')::bigint);
        END LOOP;
    END LOOP;
    PERFORM weir.is_exempt(document->'exempt', '{"ip": "203.0.113.7"}'); -- are they networks?
END $$;

-- Make these the policies, all of them: an object of documents by name. All or nothing.
CREATE OR REPLACE FUNCTION weir.push_policies(p_policies jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count integer;
BEGIN
    IF jsonb_typeof(p_policies) IS DISTINCT FROM 'object' THEN
        PERFORM weir.refuse('policies must be an object of documents by name');
    END IF;
    PERFORM weir.check_document(key, value) FROM jsonb_each(p_policies);
    DELETE FROM weir.policies WHERE NOT p_policies ? name;
    INSERT INTO weir.policies AS p (name, document)
    SELECT key, value FROM jsonb_each(p_policies)
        ON CONFLICT (name) DO UPDATE SET document = excluded.document, pushed_at = now()
           WHERE p.document <> excluded.document;
    SELECT count(*) INTO count FROM weir.policies;
    PERFORM pg_notify('weir', 'policies'); -- servers compare them with their own
    RETURN count;
END $$;

-- What a push of these would do to each: added, removed, changed or unchanged.
CREATE OR REPLACE FUNCTION weir.compare_policies(p_policies jsonb)
RETURNS TABLE (name text, change text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(new.key, old.name),
           CASE WHEN old.name IS NULL THEN 'added' WHEN new.key IS NULL THEN 'removed'
                WHEN old.document = new.value THEN 'unchanged' ELSE 'changed' END
      FROM jsonb_each(p_policies) AS new
      FULL JOIN weir.policies AS old ON old.name = new.key
$$;

-- All of them, as they were pushed.
CREATE OR REPLACE FUNCTION weir.pushed_policies() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(name, document), '{}') FROM weir.policies
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.check(text, jsonb, bigint, text, boolean, text),
    weir.peek(text, jsonb, bigint, text, text),
    weir.refund(text, jsonb, bigint, text, text),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean)
    TO weir_caller;
GRANT EXECUTE ON FUNCTION
    weir.reset(text, jsonb, text, text), weir.push_policies(jsonb), weir.pushed_policies(),
    weir.compare_policies(jsonb)
    TO weir_server;
INSERT INTO weir.migrations (number, name) VALUES (4, 'check') ON CONFLICT DO NOTHING;
COMMIT;
