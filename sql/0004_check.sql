-- 0004_check.sql - checks by plain SQL, with a policy or with a limit in the call.
BEGIN;
SET LOCAL client_min_messages = warning;

-- The only attribute of a policy, which a bare key gives.
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
        PERFORM weir.reject(format('policy ''%s'' counts everyone together: leave the key out',
                                   policy));
    ELSIF cardinality(names) > 1 OR most > 1 THEN
        PERFORM weir.reject(format('policy ''%s'' counts by several attributes: give them by name '
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
        PERFORM weir.reject('attributes must be an object');
    END IF;
    FOR name, value IN SELECT * FROM jsonb_each(attributes) LOOP
        IF jsonb_typeof(value) NOT IN ('string', 'null')
           AND (jsonb_typeof(value) <> 'number' OR value::text !~ '\A-?[0-9]{1,16}\Z') THEN
            PERFORM weir.reject(format('attribute ''%s'' must be a text or a whole number',
                                       left(name, 64)));
        END IF;
        count := count + (jsonb_typeof(value) <> 'null')::integer;
    END LOOP;
    IF count > 16 THEN
        PERFORM weir.reject(count || ' attributes are too many: at most 16');
    END IF;
    RETURN attributes;
END $$;

-- The tag of the identity that a rule counts.
CREATE OR REPLACE FUNCTION weir.tag_of_rule(
    secret bytea, policy text, rule jsonb, attributes jsonb)
RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT weir.tag_of(secret, ARRAY(SELECT jsonb_array_elements_text(rule->'by')),
                       weir.identity_of(policy, rule, attributes))
$$;

-- Count the answer for the dashboards. A read-only transaction cannot write, so it is not counted.
DROP FUNCTION IF EXISTS weir.count_answer(weir.answer, bytea, uuid, boolean);
CREATE OR REPLACE FUNCTION weir.count_answer(answer weir.answer, tag uuid, shadow_denied boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('weir.tally', true), '') = 'off'
       OR current_setting('transaction_read_only') = 'on' THEN
        RETURN;
    END IF;
    INSERT INTO weir.tally (minute, policy, rule, allowed, shadow_denied, tag)
    VALUES (date_trunc('minute', clock_timestamp()), answer.policy, answer.rule, answer.allowed,
            shadow_denied, replace(tag::text, '-', ''));
END $$;

-- ---- one check, in three steps --------------------------------------------------------------------

-- A check that is ready to be judged: its charges. Those of enforced rules come first and are one
-- question. Or its answer, if there is nothing to judge.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
                    WHERE attrelid = to_regclass('weir.prepared') AND attname = 'costs') THEN
        DROP TYPE IF EXISTS weir.prepared CASCADE; -- the functions that use it are made again below
        CREATE TYPE weir.prepared AS (
            answer     weir.answer,
            is_final   boolean,
            document   jsonb,      -- with the overrides of this identity
            attributes jsonb,
            verb       integer,
            live       integer,    -- charges of enforced rules
            keys       uuid[],     -- of each charge
            costs      bigint[],
            algorithms integer[],
            limits     bigint[],
            windows    bigint[],
            bursts     bigint[],
            precisions bigint[],
            blocks     bigint[],
            bounds     bigint[],   -- of each charge, five
            charge_of  integer[],  -- of each rule
            shadow_of  integer[]   -- of each rule: the charge of its shadow limit
        );
    END IF;
END $$;

-- What a request costs, by the names of the amounts that rules count. NULL: no such cost is given.
CREATE OR REPLACE FUNCTION weir.costs_of(document jsonb, cost bigint, costs jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    most CONSTANT integer := 16;
    counted text[];
    given CONSTANT jsonb := jsonb_strip_nulls(coalesce(costs, '{}'));
    name text;
    amount jsonb;
BEGIN
    IF cost IS NULL AND costs IS NULL THEN
        RETURN '{"requests": 1}';
    ELSIF cost IS NOT NULL THEN
        PERFORM weir.check_cost(cost);
    END IF;
    IF jsonb_typeof(given) <> 'object' THEN
        PERFORM weir.reject('costs must be an object, as in {"tokens": 1200}');
    ELSIF cost IS NOT NULL AND given ? 'requests' THEN
        PERFORM weir.reject('give a cost or the cost of requests, not both');
    ELSIF (SELECT count(*) FROM jsonb_object_keys(given)) > most THEN
        PERFORM weir.reject(format('there are too many costs: at most %s', most));
    END IF;
    counted := ARRAY(SELECT coalesce(rule->>'counts', 'requests')
        FROM jsonb_array_elements(document->'rules') WITH ORDINALITY AS r (rule, n)
        GROUP BY 1 ORDER BY min(n));
    FOR name, amount IN
        SELECT * FROM jsonb_each(given)
        UNION ALL SELECT 'requests', to_jsonb(cost) WHERE cost IS NOT NULL LOOP
        IF jsonb_typeof(amount) <> 'number' OR amount::text !~ '\A-?[0-9]+\Z' THEN
            PERFORM weir.reject(format('the cost of %s must be a whole number', left(name, 64)));
        ELSIF amount::numeric NOT BETWEEN 0 AND 9007199254740992 THEN
            PERFORM weir.reject(format('the cost of %s must be from 0 to 2^53', left(name, 64)));
        ELSIF name <> ALL (counted) THEN
            PERFORM weir.reject(format('no rule counts %s: give the cost of %s', left(name, 64),
                                       array_to_string(counted, ', ')));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('requests', coalesce(cost, 1)) || given;
END $$;

-- 1. Find the charges. The verbs are those of weir.judge().
DROP FUNCTION IF EXISTS weir.prepare(text, jsonb, bytea, jsonb, bigint, text, integer);
CREATE OR REPLACE FUNCTION weir.prepare(
    p_policy text, p_document jsonb, p_secret bytea, p_attributes jsonb, p_cost bigint, p_plan text,
    p_verb integer, p_costs jsonb DEFAULT NULL)
RETURNS weir.prepared LANGUAGE plpgsql AS $$
DECLARE
    document jsonb := p_document;
    identity bytea;
    algorithm text;
    mode text;
    rule jsonb;
    numbers jsonb;
    rule_count CONSTANT integer := jsonb_array_length(document->'rules');
    is_exempt CONSTANT boolean := weir.is_exempt(document->'exempt', p_attributes);
    amounts CONSTANT jsonb := weir.costs_of(document, p_cost, p_costs);
    live integer := 0;
    keys uuid[];
    algorithms integer[];
    limits bigint[];
    windows bigint[];
    bursts bigint[];
    precisions bigint[];
    blocks bigint[];
    bounds bigint[];
    costs bigint[];
    charge_of integer[] := '{}';
    shadow_of integer[] := '{}';
    complete record;
    windowed record;
    answer weir.answer;
    blocked integer; -- the first rule with an operator's block
    decider integer;
    wait bigint;
BEGIN
    answer := ROW(true, p_policy, document->'rules'->0->>'name', 0, 0, 0, 0, 0, 'store', '[]');
    IF p_plan IS NOT NULL AND NOT jsonb_path_exists(document, '$.rules[*].plans.keyvalue() ? (@.key == $plan)',
                                                    jsonb_build_object('plan', p_plan)) THEN
        RAISE WARNING 'no rule of policy ''%'' has a plan ''%'': the defaults apply', p_policy,
            left(p_plan, 64);
    END IF;
    IF to_regproc('weir.apply_changes') IS NOT NULL THEN -- created by 0009
        document := weir.apply_changes(p_policy, document, p_secret, p_attributes, p_plan,
                                  CASE WHEN NOT is_exempt THEN p_verb END);
        p_plan := coalesce(p_plan, document->>'plan');
    END IF;
    answer.source := CASE WHEN document->>'mode' = 'off' THEN 'off'
                          WHEN is_exempt THEN 'exempt'
                          ELSE 'store' END;

    FOR kind IN 0..1 LOOP -- enforced charges, then shadow charges
        EXIT WHEN answer.source <> 'store';
        FOR r IN 1..rule_count LOOP
            rule := document->'rules'->(r - 1);
            mode := coalesce(rule->>'mode', 'enforce');
            IF mode = 'enforce' AND document->>'mode' = 'shadow' THEN
                mode := 'shadow';
            END IF;
            -- As policy_rule_reaches(): the rule is in shadow for identities outside its rollout.
            IF mode = 'enforce' AND rule ? 'rollout' AND (rule->>'rollout')::bigint <=
                ('x' || left(weir.key_of(p_secret, ARRAY['rollout of', p_policy, rule->>'name'],
                                         weir.identity_of(p_policy, rule, p_attributes))::text, 8)
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
            identity := weir.identity_of(p_policy, rule, p_attributes);
            algorithm := CASE WHEN numbers ? 'period' THEN 'fixed_window'
                              ELSE rule->>'algorithm' END;
            complete := weir.complete(algorithm, (numbers->>'limit')::bigint,
                CASE WHEN numbers ? 'period' THEN 1 -- it multiplies nothing
                     ELSE (numbers->>'window_ms')::bigint END, (numbers->>'burst')::bigint,
                (numbers->>'precision_ms')::bigint);
            windowed := weir.windows_of(rule, numbers, complete.number, complete.window_ms);
            keys := keys || weir.key_of(p_secret, ARRAY[p_policy, rule->>'name',
                    algorithm, windowed.part]
                || ('{counts ' || nullif(rule->>'counts', 'requests') || '}')::text[]
                || CASE WHEN kind = 1 AND mode = 'enforce' THEN ARRAY['shadow'] END, identity);
            algorithms := algorithms || windowed.number;
            limits := limits || complete."limit";
            windows := windows || complete.window_ms;
            bursts := bursts || complete.burst;
            precisions := precisions || complete.precision_ms;
            bounds := bounds || windowed.bounds;
            blocks := blocks || coalesce((rule->>'block_for_ms')::bigint, 0);
            costs := costs || coalesce(
                (amounts->>coalesce(rule->>'counts', 'requests'))::bigint, 0);
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
                answer, weir.tag_of_rule(p_secret, p_policy, rule, p_attributes), false);
        END IF;
    ELSIF keys IS NULL THEN -- exempt, or all of its rules are off
        answer.source := CASE WHEN answer.source <> 'store' THEN answer.source
                              WHEN document->'rules' @> '[{"is_exempt": true}]' THEN 'exempt'
                              ELSE 'off' END;
        rule := document->'rules'->0;
        numbers := coalesce(rule->'plans'->p_plan, rule);
        answer."limit" := (numbers->>'limit')::bigint;
        answer.remaining := coalesce((numbers->>'burst')::bigint, answer."limit");
    END IF;
    RETURN ROW(answer, blocked IS NOT NULL OR keys IS NULL, document, p_attributes, p_verb, live,
               keys, costs, algorithms, limits, windows, bursts, precisions, blocks, bounds,
               charge_of, shadow_of);
END $$;

-- 2. Judge all checks by one call, in key order, so that calls do not deadlock. The answer has an
-- element for each charge, those of the first check first.
CREATE OR REPLACE FUNCTION weir.judge_prepared(
    p_checks weir.prepared[], OUT allowed boolean[], OUT remaining bigint[], OUT retry_after bigint[],
    OUT reset_after bigint[], OUT delay bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    one weir.prepared;
    sorted uuid[];
    slots integer[];
    keys uuid[];
    algorithms integer[];
    limits bigint[];
    windows bigint[];
    bursts bigint[];
    precisions bigint[];
    blocks bigint[];
    bounds bigint[];
    counts integer[];
    verbs integer[];
    costs bigint[];
    questions integer[];
BEGIN
    FOREACH one IN ARRAY p_checks LOOP
        CONTINUE WHEN one.is_final;
        keys := keys || one.keys;
        algorithms := algorithms || one.algorithms;
        limits := limits || one.limits;
        windows := windows || one.windows;
        bursts := bursts || one.bursts;
        precisions := precisions || one.precisions;
        blocks := blocks || one.blocks;
        bounds := bounds || one.bounds;
        questions := CASE WHEN one.live > 0 THEN ARRAY[one.live] END
                     || array_fill(1, ARRAY[cardinality(one.keys) - one.live]);
        counts := counts || questions;
        verbs := verbs || array_fill(one.verb, ARRAY[cardinality(questions)]);
        costs := costs || one.costs;
    END LOOP;
    IF keys IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT k ORDER BY k) INTO sorted FROM unnest(keys) AS k;
    SELECT array_agg(array_position(sorted, u.k) ORDER BY u.n) INTO slots
      FROM unnest(keys) WITH ORDINALITY AS u (k, n);
    SELECT j.allowed, j.remaining, j.retry_after, j.reset_after, j.delay
      INTO allowed, remaining, retry_after, reset_after, delay
      FROM weir.judge(
        sorted, algorithms, limits, windows, bursts, precisions, slots,
        (SELECT array_agg(n) FROM generate_series(1, cardinality(keys)) AS n), counts, verbs,
        costs, NULL, blocks, bounds) AS j;
END $$;

-- 3. Build the answer. p_before: the number of charges of the checks before this one.
CREATE OR REPLACE FUNCTION weir.conclude(
    p weir.prepared, p_secret bytea, p_before integer, allowed boolean[], remaining bigint[],
    retry_after bigint[], reset_after bigint[], delay bigint[])
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    answer weir.answer := p.answer;
    i integer;    -- a charge
    k integer;    -- its index
    best integer; -- the charge that decides
    b integer;    -- its index
    decider jsonb; -- its rule
    is_shadow boolean;
    shadow_denied boolean;
    any_shadow_denied boolean := false;
    soonest CONSTANT boolean := coalesce(p.document->>'retry_after' = 'soonest', false);
BEGIN
    -- The rule that decides: among rules that deny, the one with the longest wait (never is the
    -- longest). If all allow, the one with the least remaining. The first on a tie. A rule in
    -- shadow decides only if the check has no enforced rule.
    FOR r IN 1..jsonb_array_length(p.document->'rules') LOOP
        i := p.charge_of[r];
        CONTINUE WHEN i IS NULL;
        k := p_before + i;
        is_shadow := i > p.live;
        shadow_denied := CASE WHEN is_shadow THEN NOT allowed[k]
                           ELSE coalesce(NOT allowed[p_before + p.shadow_of[r]], false) END;
        any_shadow_denied := any_shadow_denied OR shadow_denied;
        answer.rules := answer.rules || (jsonb_build_object(
            'rule', p.document->'rules'->(r - 1)->>'name', 'limit', p.limits[i],
            'remaining', greatest(remaining[k], 0), 'retry_after_ms', retry_after[k],
            'reset_after_ms', reset_after[k], 'delay_ms', delay[k],
            'allowed', allowed[k], 'shadow', is_shadow, 'shadow_denied', shadow_denied)
            || CASE WHEN p.verb = 5 THEN
                   jsonb_build_object('used', p.bursts[i] - remaining[k],
                                      'over', greatest(0, -remaining[k]))
               ELSE '{}' END);
        IF NOT is_shadow THEN
            answer.delay_ms := greatest(answer.delay_ms, delay[k]);
        END IF;
        IF best IS NULL
           OR (CASE WHEN is_shadow <> (best > p.live) THEN best > p.live
                   WHEN allowed[k] <> allowed[b] THEN allowed[b]
                   WHEN allowed[k] THEN remaining[k] < remaining[b]
                   WHEN soonest THEN retry_after[k] <> -1
                        AND (retry_after[b] = -1 OR retry_after[k] < retry_after[b])
                   ELSE retry_after[b] <> -1
                        AND (retry_after[k] = -1 OR retry_after[k] > retry_after[b]) END) THEN
            best := i;
            b := k;
            decider := p.document->'rules'->(r - 1);
            answer.rule := decider->>'name';
        END IF;
    END LOOP;
    answer.allowed := allowed[b] OR best > p.live;
    answer."limit" := p.limits[best];
    answer.remaining := greatest(remaining[b], 0);
    answer.retry_after_ms := CASE WHEN answer.allowed THEN 0 ELSE retry_after[b] END;
    answer.reset_after_ms := reset_after[b];
    IF NOT answer.allowed THEN
        answer.delay_ms := 0;
    END IF;
    IF p.verb = 0 THEN
        PERFORM weir.count_answer(
            answer, CASE WHEN NOT answer.allowed THEN weir.tag_of_rule(
                p_secret, answer.policy, decider, p.attributes) END, any_shadow_denied);
    END IF;
    RETURN answer;
END $$;

CREATE OR REPLACE FUNCTION weir.answer_prepared(p weir.prepared, p_secret bytea)
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    said record;
BEGIN
    IF p.is_final THEN
        RETURN p.answer;
    END IF;
    said := weir.judge_prepared(ARRAY[p]);
    RETURN weir.conclude(p, p_secret, 0, said.allowed, said.remaining, said.retry_after,
                         said.reset_after, said.delay);
END $$;

-- ---- by a policy ----------------------------------------------------------------------------------

-- The document of a policy as it was pushed.
CREATE OR REPLACE FUNCTION weir.document_of(p_policy text) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found CONSTANT jsonb := (SELECT p.document FROM weir.policies p WHERE p.name = p_policy);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no policy ''%''', left(p_policy, 64)
            USING ERRCODE = 'undefined_object', HINT = 'Create it with: weir policy push';
    END IF;
    RETURN found;
END $$;

DROP FUNCTION IF EXISTS
    weir.prepare_policy(text, jsonb, text, bigint, text, integer, bytea);
CREATE OR REPLACE FUNCTION weir.prepare_policy(
    p_policy text, p_attributes jsonb, p_key text, p_cost bigint, p_plan text, p_verb integer,
    p_secret bytea, p_costs jsonb)
RETURNS weir.prepared LANGUAGE plpgsql AS $$
DECLARE
    document CONSTANT jsonb := weir.document_of(p_policy);
    attributes jsonb;
BEGIN
    attributes := weir.check_attributes(coalesce(p_attributes, '{}'));
    IF p_key IS NOT NULL THEN
        IF attributes <> '{}' THEN
            PERFORM weir.reject('give a key or attributes, not both');
        END IF;
        attributes := jsonb_build_object(weir.sole_attribute(p_policy, document), p_key);
    END IF;
    RETURN weir.prepare(p_policy, document, p_secret, attributes, p_cost, p_plan, p_verb, p_costs);
END $$;

-- Run one verb against a policy; the verbs are those of weir.judge().
DROP FUNCTION IF EXISTS weir.ask(text, jsonb, text, bigint, text, integer);
CREATE OR REPLACE FUNCTION weir.ask(
    p_policy text, p_attributes jsonb, p_key text, p_cost bigint, p_plan text, p_verb integer,
    p_costs jsonb DEFAULT NULL)
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
BEGIN
    RETURN weir.answer_prepared(
        weir.prepare_policy(p_policy, p_attributes, p_key, p_cost, p_plan, p_verb, secret, p_costs),
        secret);
END $$;

-- Decide whether a request may pass, and count it if so.
DROP FUNCTION IF EXISTS weir.check(text, jsonb, bigint, text, boolean, text);
CREATE OR REPLACE FUNCTION weir.check(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT NULL,
    p_plan text DEFAULT NULL, p_peek boolean DEFAULT false, p_key text DEFAULT NULL,
    p_costs jsonb DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan,
                    CASE WHEN p_peek THEN 1 ELSE 0 END, p_costs)
$$;

-- What a check would answer; counts nothing.
DROP FUNCTION IF EXISTS weir.peek(text, jsonb, bigint, text, text);
CREATE OR REPLACE FUNCTION weir.peek(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT NULL,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL,
    p_costs jsonb DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan, 1, p_costs)
$$;

-- Refund what was counted but did not happen, newest first.
DROP FUNCTION IF EXISTS weir.refund(text, jsonb, bigint, text, text);
CREATE OR REPLACE FUNCTION weir.refund(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT NULL,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL,
    p_costs jsonb DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan, 2, p_costs)
$$;

-- It has happened: count it, whatever the limits say. Each of the rules has used and over.
DROP FUNCTION IF EXISTS weir.charge(text, jsonb, bigint, text, text);
CREATE OR REPLACE FUNCTION weir.charge(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_cost bigint DEFAULT NULL,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL,
    p_costs jsonb DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, p_cost, p_plan, 5, p_costs)
$$;

-- Drop all counts of an identity.
CREATE OR REPLACE FUNCTION weir.reset(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_plan text DEFAULT NULL,
    p_key text DEFAULT NULL)
RETURNS weir.answer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.ask(p_policy, p_attributes, p_key, NULL, p_plan, 3)
$$;

-- The start and the lockout of a limit given in the call: its number for weir.judge(), and the part
-- of its key that says which windows it has.
CREATE OR REPLACE FUNCTION weir.windows_of_limit(
    p_start text, p_block_for_ms bigint, INOUT number integer, p_window_ms bigint, OUT part text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    windowed record;
BEGIN
    IF coalesce(p_start, 'epoch') NOT IN ('epoch', 'first') THEN
        PERFORM weir.reject('start must be epoch or first');
    ELSIF p_block_for_ms NOT BETWEEN 1 AND 4398046511104 THEN
        PERFORM weir.reject('block_for must be from 1 ms to 4398046511104 ms');
    END IF;
    windowed := weir.windows_of(jsonb_build_object('start', p_start), '{}', number, p_window_ms);
    number := windowed.number;
    part := windowed.part || coalesce(' block ' || p_block_for_ms, '');
END $$;

-- A limit given in the call, on a bare key; p_now is for callers with a clock of their own.
DROP FUNCTION IF EXISTS
    weir.ask_limit(text, bytea, bigint, bigint, text, bigint, bigint, bigint, integer, bigint);
CREATE OR REPLACE FUNCTION weir.ask_limit(
    p_who text, p_key bytea, p_limit bigint, p_window_ms bigint, p_algorithm text, p_cost bigint,
    p_burst bigint, p_precision_ms bigint, p_verb integer, p_now bigint,
    p_start text DEFAULT NULL, p_block_for_ms bigint DEFAULT NULL)
RETURNS weir.answer LANGUAGE plpgsql AS $$
DECLARE
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
    rule record;
    windowed record;
    key uuid;
    said record;
    answer weir.answer;
BEGIN
    PERFORM weir.check_cost(p_cost);
    IF coalesce(p_window_ms, 0) = 0 THEN
        PERFORM weir.reject('the window must be at least 1 ms');
    END IF;
    rule := weir.complete(p_algorithm, p_limit, p_window_ms, p_burst, p_precision_ms);
    windowed := weir.windows_of_limit(p_start, p_block_for_ms, rule.number, p_window_ms);
    key := weir.key_of(secret, ARRAY['limits that come with a request', p_algorithm,
                                     windowed.part], p_key);
    SELECT * INTO said FROM weir.judge(ARRAY[key], ARRAY[windowed.number], ARRAY[rule."limit"],
        ARRAY[rule.window_ms], ARRAY[rule.burst], ARRAY[rule.precision_ms], ARRAY[1], ARRAY[1],
        NULL, ARRAY[p_verb], ARRAY[p_cost], ARRAY[p_now], ARRAY[coalesce(p_block_for_ms, 0)]);
    answer := ROW(said.allowed[1], p_who, 'default', p_limit, said.remaining[1],
                  said.retry_after[1], said.reset_after[1], said.delay[1], 'store', '[]');
    IF p_verb = 0 AND p_who IS NOT NULL THEN
        PERFORM weir.count_answer(
            answer, CASE WHEN NOT answer.allowed THEN weir.tag_of(secret, '{key}', p_key) END,
            false);
    END IF;
    RETURN answer;
END $$;

-- A named limit given in the call. It is counted like a policy of that name with one rule, default,
-- that counts by one attribute. So operators can override it by name, and its counts stay when it
-- becomes a policy.
DROP FUNCTION IF EXISTS
    weir.prepare_named(text, text, bigint, bigint, text, bigint, bigint, bigint, integer, bytea);
CREATE OR REPLACE FUNCTION weir.prepare_named(
    p_name text, p_key text, p_limit bigint, p_window_ms bigint, p_algorithm text, p_cost bigint,
    p_burst bigint, p_precision_ms bigint, p_verb integer, p_secret bytea, p_start text,
    p_block_for_ms bigint)
RETURNS weir.prepared LANGUAGE plpgsql AS $$
DECLARE
    rule record;
BEGIN
    IF p_name !~ '\A[A-Za-z0-9_.:/-]{1,64}\Z' THEN
        PERFORM weir.reject('a name is 1 to 64 of a-z A-Z 0-9 _ . : / -');
    ELSIF EXISTS (SELECT FROM weir.policies WHERE name = p_name) THEN
        PERFORM weir.reject(format('''%s'' is a policy: give the limit another name, or check the '
                                   'policy', p_name));
    ELSIF coalesce(p_window_ms, 0) = 0 THEN
        PERFORM weir.reject('the window must be at least 1 ms');
    END IF;
    rule := weir.complete(p_algorithm, p_limit, p_window_ms, p_burst, p_precision_ms);
    PERFORM weir.windows_of_limit(p_start, p_block_for_ms, rule.number, p_window_ms);
    RETURN weir.prepare(p_name, jsonb_build_object('rules', jsonb_build_array(jsonb_strip_nulls(
        jsonb_build_object('name', 'default', 'algorithm', p_algorithm, 'limit', p_limit,
                           'window_ms', p_window_ms, 'burst', p_burst,
                           'precision_ms', p_precision_ms, 'start', p_start,
                           'block_for_ms', p_block_for_ms, 'by', jsonb_build_array('key'))))),
        p_secret, jsonb_build_object('key', coalesce(p_key, '')), p_cost, NULL, p_verb);
END $$;

-- Without a policy: the same as a request to a server with key, limit and window_ms, and optionally
-- a name.
DROP FUNCTION IF EXISTS
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean, text);
CREATE OR REPLACE FUNCTION weir.limit(
    p_key text, p_limit bigint, p_window_ms bigint, p_algorithm text DEFAULT 'sliding_window',
    p_cost bigint DEFAULT 1, p_burst bigint DEFAULT NULL, p_precision_ms bigint DEFAULT NULL,
    p_peek boolean DEFAULT false, p_name text DEFAULT NULL, p_start text DEFAULT NULL,
    p_block_for_ms bigint DEFAULT NULL)
RETURNS weir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    verb CONSTANT integer := CASE WHEN p_peek THEN 1 ELSE 0 END;
    secret bytea;
    answer weir.answer;
BEGIN
    IF p_name IS NOT NULL THEN
        secret := (SELECT bytes FROM weir.secret);
        RETURN weir.answer_prepared(
            weir.prepare_named(p_name, p_key, p_limit, p_window_ms, p_algorithm, p_cost, p_burst,
                               p_precision_ms, verb, secret, p_start, p_block_for_ms), secret);
    END IF;
    answer := weir.ask_limit('(unnamed)', weir.sized('the key', coalesce(p_key, '')), p_limit,
        p_window_ms, p_algorithm, p_cost, p_burst, p_precision_ms, verb, NULL, p_start,
        p_block_for_ms);
    answer.policy := NULL;
    RETURN answer;
END $$;

-- ---- many at once ---------------------------------------------------------------------------------

-- A limit without a name, in the form of a prepared check.
DROP FUNCTION IF EXISTS
    weir.prepare_nameless(text, bigint, bigint, text, bigint, bigint, bigint, integer, bytea);
CREATE OR REPLACE FUNCTION weir.prepare_nameless(
    p_key text, p_limit bigint, p_window_ms bigint, p_algorithm text, p_cost bigint, p_burst bigint,
    p_precision_ms bigint, p_verb integer, p_secret bytea, p_start text, p_block_for_ms bigint)
RETURNS weir.prepared LANGUAGE plpgsql AS $$
DECLARE
    rule record;
    windowed record;
    answer weir.answer;
BEGIN
    PERFORM weir.check_cost(p_cost);
    IF coalesce(p_window_ms, 0) = 0 THEN
        PERFORM weir.reject('the window must be at least 1 ms');
    END IF;
    rule := weir.complete(p_algorithm, p_limit, p_window_ms, p_burst, p_precision_ms);
    windowed := weir.windows_of_limit(p_start, p_block_for_ms, rule.number, p_window_ms);
    answer := ROW(true, '(unnamed)', 'default', 0, 0, 0, 0, 0, 'store', '[]');
    RETURN ROW(answer, false, '{"rules": [{"by": ["key"], "name": "default"}]}'::jsonb,
               jsonb_build_object('key', p_key), p_verb, 1,
               ARRAY[weir.key_of(p_secret, ARRAY['limits that come with a request', p_algorithm,
                                                 windowed.part],
                                 weir.sized('the key', coalesce(p_key, '')))], ARRAY[p_cost],
               ARRAY[windowed.number], ARRAY[rule."limit"], ARRAY[rule.window_ms], ARRAY[rule.burst],
               ARRAY[rule.precision_ms], ARRAY[coalesce(p_block_for_ms, 0)], '{0,0,0,0,0}'::bigint[], '{1}'::integer[],
               '{}'::integer[]);
END $$;

CREATE OR REPLACE FUNCTION weir.prepare_json(p_check jsonb, p_secret bytea) RETURNS weir.prepared
LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT text[] := '{policy,attributes,key,cost,costs,plan,peek,name,limit,window_ms,algorithm,burst,precision_ms,start,block_for_ms}';
    asked record;
    verb integer;
    word text;
BEGIN
    IF jsonb_typeof(p_check) IS DISTINCT FROM 'object' THEN
        PERFORM weir.reject('a check must be an object');
    END IF;
    SELECT k INTO word FROM jsonb_object_keys(p_check) AS k WHERE k <> ALL (known) LIMIT 1;
    IF word IS NOT NULL THEN
        PERFORM weir.reject(format('a check has no member ''%s''', left(word, 64)));
    END IF;
    BEGIN
        SELECT * INTO asked FROM jsonb_to_record(p_check) AS c (
            policy text, attributes jsonb, key text, cost bigint, costs jsonb, plan text,
            peek boolean, name text, "limit" bigint, window_ms bigint, algorithm text, burst bigint,
            precision_ms bigint, start text, block_for_ms bigint);
    EXCEPTION WHEN data_exception THEN
        PERFORM weir.reject('cost, limit, window_ms, burst, precision_ms and block_for_ms are whole '
                            'numbers, and peek is true or false');
    END;
    verb := CASE WHEN asked.peek THEN 1 ELSE 0 END;
    IF asked.policy IS NOT NULL AND p_check ?| '{name,limit,window_ms,algorithm,burst,precision_ms,start,block_for_ms}' THEN
        PERFORM weir.reject('give a policy, or a limit with its window_ms');
    ELSIF asked.policy IS NOT NULL THEN
        RETURN weir.prepare_policy(asked.policy, asked.attributes, asked.key,
                                   asked.cost, asked.plan, verb, p_secret, asked.costs);
    ELSIF p_check ?| '{attributes,plan,costs}' THEN
        PERFORM weir.reject('attributes, plans and costs belong to a policy: name one');
    ELSIF asked.name IS NOT NULL THEN
        RETURN weir.prepare_named(asked.name, asked.key, asked."limit", asked.window_ms,
            coalesce(asked.algorithm, 'sliding_window'), coalesce(asked.cost, 1), asked.burst,
            asked.precision_ms, verb, p_secret, asked.start, asked.block_for_ms);
    END IF;
    RETURN weir.prepare_nameless(asked.key, asked."limit", asked.window_ms,
        coalesce(asked.algorithm, 'sliding_window'), coalesce(asked.cost, 1), asked.burst,
        asked.precision_ms, verb, p_secret, asked.start, asked.block_for_ms);
END $$;

-- Many checks, answered in order. An array of objects, each with policy, attributes or key, cost or
-- costs, plan and peek; or with key, limit and window_ms, and optionally name, algorithm, burst,
-- precision_ms, start and block_for_ms. Each check is charged wholly or not at all, and sees the charges of those before
-- it. If one is invalid, none is charged.
CREATE OR REPLACE FUNCTION weir.check_many(p_checks jsonb) RETURNS SETOF weir.answer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT integer := 1000;
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
    prepared weir.prepared[] := '{}';
    one weir.prepared;
    answer weir.answer;
    said record;
    before integer := 0;
BEGIN
    IF jsonb_typeof(p_checks) IS DISTINCT FROM 'array' THEN
        PERFORM weir.reject('checks must be an array');
    ELSIF jsonb_array_length(p_checks) > most THEN
        PERFORM weir.reject(format('%s checks are too many: at most %s', jsonb_array_length(p_checks),
                                   most));
    END IF;
    FOR i IN 0..jsonb_array_length(p_checks) - 1 LOOP
        prepared := prepared || weir.prepare_json(p_checks->i, secret);
    END LOOP;
    said := weir.judge_prepared(prepared);
    FOREACH one IN ARRAY prepared LOOP
        IF one.is_final THEN
            answer := one.answer;
        ELSE
            answer := weir.conclude(one, secret, before, said.allowed, said.remaining,
                                    said.retry_after, said.reset_after, said.delay);
            before := before + cardinality(one.keys);
        END IF;
        IF one.document = '{"rules": [{"by": ["key"], "name": "default"}]}' THEN -- no name
            answer.policy := NULL;
            answer.rules := '[]';
        END IF;
        RETURN NEXT answer;
    END LOOP;
END $$;

-- ---- policies -----------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION weir.check_document(name text, document jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
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
       OR coalesce(jsonb_typeof(document->'exempt'), 'array') <> 'array'
       OR coalesce(jsonb_typeof(document->'reserve'), 'object') <> 'object'
       OR coalesce(document->'reserve'->>'on_expiry', 'charge') NOT IN ('charge', 'release')
       OR EXISTS (SELECT FROM unnest(ARRAY['ttl_ms', 'max_ttl_ms']) AS u (ttl)
                   WHERE CASE WHEN document->'reserve'->>u.ttl !~ '\A[1-9][0-9]{0,7}\Z' THEN true
                              ELSE (document->'reserve'->>u.ttl)::bigint > 86400000 END) THEN
        PERFORM weir.reject(format('policy ''%s'': the document is invalid', left(name, 64)));
    END IF;
    FOR rule IN SELECT jsonb_array_elements(document->'rules') LOOP
        IF coalesce(rule->>'name' !~ is_name, true)
           OR coalesce(rule->>'mode', 'enforce') NOT IN ('enforce', 'shadow', 'off')
           OR coalesce((rule->>'ipv6_prefix')::integer, 64) NOT BETWEEN 1 AND 128
           OR coalesce((rule->>'block_for_ms')::bigint, 1) NOT BETWEEN 1 AND 4398046511104
           OR coalesce(rule->>'counts', 'requests') !~ is_name
           OR coalesce(rule->>'start', 'epoch') NOT IN ('epoch', 'first')
           OR (rule->>'start' = 'first' AND rule->>'algorithm' <> 'fixed_window')
           OR coalesce(jsonb_typeof(rule->'by'), 'array') <> 'array'
           OR coalesce(jsonb_array_length(rule->'by'), 0) > 8
           OR coalesce(jsonb_typeof(rule->'plans'), 'object') <> 'object' THEN
            PERFORM weir.reject(format('policy ''%s'': a rule is invalid', name));
        END IF;
        FOR part IN SELECT rule UNION ALL SELECT rule->'shadow_limit' WHERE rule ? 'shadow_limit'
                    UNION ALL SELECT value FROM jsonb_each(rule->'plans') LOOP
            PERFORM weir.complete(CASE WHEN part ? 'period' THEN 'fixed_window' ELSE rule->>'algorithm' END,
                (part->>'limit')::bigint,
                CASE WHEN part ? 'period' THEN 1 ELSE (part->>'window_ms')::bigint END,
                (part->>'burst')::bigint,
                (part->>'precision_ms')::bigint);
            IF part ? 'period' THEN -- fails on an unknown zone
                IF part->>'period' NOT IN ('day', 'week', 'month', 'quarter', 'year')
                   OR coalesce((part->>'month_day')::integer, 1) NOT BETWEEN 1 AND 31 THEN
                    PERFORM weir.reject(format('policy ''%s'': a rule is invalid', name));
                END IF;
                PERFORM weir.calendar_bounds(part->>'period', part->>'zone',
                                             coalesce((part->>'month_day')::integer, 1), 0);
            END IF;
        END LOOP;
    END LOOP;
    PERFORM weir.is_exempt(document->'exempt', '{"ip": "203.0.113.7"}'); -- fails on a bad network
END $$;

-- Replace all policies by these: an object of documents by name. All or nothing.
CREATE OR REPLACE FUNCTION weir.push_policies(p_policies jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count integer;
BEGIN
    IF jsonb_typeof(p_policies) IS DISTINCT FROM 'object' THEN
        PERFORM weir.reject('policies must be an object of documents by name');
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

-- What pushing these would do to each policy: added, removed, changed or unchanged.
CREATE OR REPLACE FUNCTION weir.compare_policies(p_policies jsonb)
RETURNS TABLE (name text, change text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(new.key, old.name),
           CASE WHEN old.name IS NULL THEN 'added' WHEN new.key IS NULL THEN 'removed'
                WHEN old.document = new.value THEN 'unchanged' ELSE 'changed' END
      FROM jsonb_each(p_policies) AS new
      FULL JOIN weir.policies AS old ON old.name = new.key
$$;

-- All policies as they were pushed.
CREATE OR REPLACE FUNCTION weir.pushed_policies() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(name, document), '{}') FROM weir.policies
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.check(text, jsonb, bigint, text, boolean, text, jsonb),
    weir.peek(text, jsonb, bigint, text, text, jsonb),
    weir.refund(text, jsonb, bigint, text, text, jsonb),
    weir.charge(text, jsonb, bigint, text, text, jsonb),
    weir.limit(text, bigint, bigint, text, bigint, bigint, bigint, boolean, text, text, bigint),
    weir.check_many(jsonb)
    TO weir_caller;
GRANT EXECUTE ON FUNCTION
    weir.reset(text, jsonb, text, text), weir.push_policies(jsonb), weir.pushed_policies(),
    weir.compare_policies(jsonb)
    TO weir_server;
INSERT INTO weir.migrations (number, name) VALUES (4, 'check') ON CONFLICT DO NOTHING;
COMMIT;
