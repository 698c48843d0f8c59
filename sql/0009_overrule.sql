-- 0009_overrule.sql - applies the changes of operators to checks by plain SQL.
--
-- weir.ask() calls weir.apply_changes(), which applies the ledger to a policy's document for one
-- identity: overrides, assigned plans and live modes, as src/engine/override_apply.c does. The
-- clock is the database clock.
BEGIN;
SET LOCAL client_min_messages = warning;

-- Most policies have no entry; the index makes that a single lookup.
CREATE INDEX IF NOT EXISTS ledger_policy ON weir.ledger (policy, kind, "by");
CREATE INDEX IF NOT EXISTS ledger_key ON weir.ledger (key, seq) WHERE kind <> 'mode';

-- What is in force for a tag: the last entry of each kind, unless it has expired.
CREATE OR REPLACE FUNCTION weir.in_force_for(p_kind text, p_key uuid, p_now bigint)
RETURNS SETOF weir.ledger LANGUAGE sql STABLE AS $$
    SELECT *
      FROM (SELECT DISTINCT ON (l.policy, l.rule) l.*
              FROM weir.ledger l
             WHERE l.key = p_key AND l.kind = p_kind AND l.kind <> 'mode'
             ORDER BY l.policy, l.rule, l.seq DESC) AS last
     WHERE effect <> 'removed' AND (expires = 0 OR p_now < expires)
$$;

-- The plan assigned last to one of these attributes: for the policy, otherwise for all policies.
CREATE OR REPLACE FUNCTION weir.assigned_plan(
    p_policy text, p_secret bytea, p_attributes jsonb, p_now bigint)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    name text;
    tag uuid;
    found record;
    last bigint := 0;
    plan text;
BEGIN
    FOR name IN
        SELECT a.key FROM jsonb_each(p_attributes) AS a
         WHERE jsonb_typeof(a.value) <> 'null'
           AND EXISTS (SELECT FROM weir.ledger l WHERE l.policy IN (p_policy, '')
                          AND l.kind = 'plan' AND l."by" = a.key)
    LOOP
        BEGIN
            tag := weir.tag_of_rule(
                p_secret, p_policy,
                jsonb_build_object('name', name, 'by', jsonb_build_array(name)), p_attributes);
        EXCEPTION WHEN invalid_parameter_value THEN
            CONTINUE; -- a rule that counts by it reports the error
        END;
        SELECT l.seq, l.value INTO found
          FROM weir.in_force_for('plan', tag, p_now) AS l
         WHERE l.policy IN (p_policy, '')
         ORDER BY l.policy = '' LIMIT 1;
        IF found.seq > last THEN
            last := found.seq;
            plan := found.value;
        END IF;
    END LOOP;
    RETURN plan;
END $$;

-- A rule with other numbers, as override_numbers() in src/engine/override_index.c: defaults follow
-- from the new numbers. A rule that cannot take them stays unchanged.
CREATE OR REPLACE FUNCTION weir.with_numbers(
    p_rule jsonb, p_plan text, p_limit bigint, p_burst bigint)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    numbers CONSTANT jsonb := coalesce(p_rule->'plans'->p_plan, p_rule);
    algorithm CONSTANT text := CASE WHEN numbers ? 'period' THEN 'fixed_window'
                                    ELSE p_rule->>'algorithm' END;
    own record;
    usual record;
    next record;
BEGIN
    own := weir.complete(algorithm, (numbers->>'limit')::bigint,
                         CASE WHEN numbers ? 'period' THEN 1 ELSE (numbers->>'window_ms')::bigint END,
                         (numbers->>'burst')::bigint, (numbers->>'precision_ms')::bigint);
    usual := weir.complete(algorithm, own."limit", own.window_ms, NULL, NULL);
    next := weir.complete(
        algorithm, CASE p_limit WHEN -1 THEN own."limit" ELSE p_limit END, own.window_ms,
        CASE WHEN p_burst <> -1 THEN p_burst
             WHEN own.burst <> usual.burst THEN own.burst END,
        CASE WHEN own.precision_ms <> usual.precision_ms THEN own.precision_ms END);
    RETURN (p_rule - '{plans,limit,window_ms,burst,precision_ms,period,zone,month_day}'::text[])
        || jsonb_strip_nulls(jsonb_build_object('period', numbers->'period', 'zone', numbers->'zone',
                                                'month_day', numbers->'month_day'))
        || jsonb_build_object('limit', next."limit", 'window_ms', next.window_ms)
        || CASE WHEN algorithm IN ('token_bucket', 'leaky_bucket') AND next."limit" > 0
                THEN jsonb_build_object('burst', next.burst) ELSE '{}' END
        || CASE WHEN algorithm = 'sliding_window' AND next."limit" > 0
                THEN jsonb_build_object('precision_ms', next.precision_ms) ELSE '{}' END;
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN p_rule;
END $$;

-- Apply one entry to a rule. For an exempt identity only a reset has an effect; a block applies to
-- checks and peeks only.
CREATE OR REPLACE FUNCTION weir.apply_change(
    p_rule jsonb, p_entry weir.ledger, p_plan text, p_verb integer)
RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_entry.effect = 'exempt' AND p_verb <> 3 THEN
            p_rule || '{"mode": "off", "is_exempt": true}'
        WHEN p_entry.effect = 'block' AND p_verb < 2 THEN
            p_rule || jsonb_build_object('blocked_until', p_entry.expires)
        WHEN p_entry.effect = 'plan' AND p_rule->'plans' ? p_entry.value THEN
            (p_rule - '{plans,limit,window_ms,burst,precision_ms}'::text[])
                || (p_rule->'plans'->p_entry.value)
        WHEN p_entry.effect = 'plan' THEN p_rule - 'plans'
        WHEN p_entry.effect = 'limit' THEN
            weir.with_numbers(p_rule, p_plan, p_entry."limit", p_entry.burst)
        ELSE p_rule END
$$;

-- The document for one identity, with the assigned `plan`. The verbs are those of weir.judge();
-- NULL: the identity is exempt, and only the mode may matter.
CREATE OR REPLACE FUNCTION weir.apply_changes(
    p_policy text, p_document jsonb, p_secret bytea, p_attributes jsonb, p_plan text,
    p_verb integer)
RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    now CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    document jsonb := p_document;
    plan text := p_plan;
    entry weir.ledger;
    own jsonb; -- a rule
BEGIN
    IF NOT EXISTS (SELECT FROM weir.ledger l WHERE l.policy = p_policy
                       OR (l.policy = '' AND l.kind = 'plan')) THEN
        RETURN document;
    END IF;
    SELECT * INTO entry FROM weir.ledger l
     WHERE l.policy = p_policy AND l.kind = 'mode' ORDER BY l.seq DESC LIMIT 1;
    IF entry.effect = 'mode' AND (entry.expires = 0 OR now < entry.expires) THEN
        document := document || jsonb_build_object('mode', entry.value);
    END IF;
    IF document->>'mode' = 'off' OR p_verb IS NULL THEN
        RETURN document;
    END IF;

    IF plan IS NULL AND document @? '$.rules[*].plans' THEN
        plan := weir.assigned_plan(p_policy, p_secret, p_attributes, now);
        document := document || jsonb_build_object('plan', plan);
    END IF;
    IF NOT EXISTS (SELECT FROM weir.ledger l
                    WHERE l.policy = p_policy AND l.kind = 'override') THEN
        RETURN document;
    END IF;
    FOR r IN 0..jsonb_array_length(document->'rules') - 1 LOOP
        own := document->'rules'->r;
        CONTINUE WHEN own->>'mode' = 'off';
        SELECT * INTO entry
          FROM weir.in_force_for('override',
                               weir.tag_of_rule(p_secret, p_policy, own, p_attributes), now) AS l
         WHERE l.policy = p_policy AND l.rule IN (own->>'name', '')
         ORDER BY l.rule = '' LIMIT 1;
        CONTINUE WHEN entry.seq IS NULL;
        document := jsonb_set(document, ARRAY['rules', r::text],
                              weir.apply_change(own, entry, plan, p_verb));
    END LOOP;
    RETURN document;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
INSERT INTO weir.migrations (number, name) VALUES (9, 'overrule') ON CONFLICT DO NOTHING;
COMMIT;
