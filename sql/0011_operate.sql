-- 0011_operate.sql - overrides, assigned plans and live modes by plain SQL, without a server.
--
-- They are entries of the ledger, as a server writes them (src/engine/override_request.c). Each
-- names an operator and a reason, may expire, applies to servers and to SQL callers, and stays in
-- the audit log. A change without an effect is an error. `who` defaults to the role of the session
-- or SET ROLE.
BEGIN;
SET LOCAL client_min_messages = warning;

-- Check that a text is one line and not too long.
CREATE OR REPLACE FUNCTION weir.check_line(what text, value text, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(convert_to(value, 'UTF8')) > most THEN
        PERFORM weir.reject(format('%s has more than %s bytes', what, most));
    ELSIF value ~ '[\x01-\x1f\x7f-\x9f]' THEN
        PERFORM weir.reject(what || ' must be one line of text');
    END IF;
    RETURN coalesce(value, '');
END $$;

-- Append an operator's change; returns its id.
CREATE OR REPLACE FUNCTION weir.append_change(
    p_kind text, p_effect text, p_key uuid, p_limit bigint, p_burst bigint, p_for interval,
    p_policy text, p_rule text, p_by text, p_value text, p_who text, p_reason text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    clock CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    expires bigint := 0;
BEGIN
    IF p_for IS NOT NULL THEN
        expires := floor(extract(epoch FROM clock_timestamp() + p_for) * 1000)::bigint;
        IF expires <= clock THEN
            PERFORM weir.reject('it would end before it begins: give a time in the future');
        END IF;
    END IF;
    RETURN (weir.append_entry(
        p_kind, p_effect, p_key, coalesce(p_limit, -1), coalesce(p_burst, -1), expires,
        coalesce(p_policy, ''), coalesce(p_rule, ''), p_by, coalesce(p_value, ''),
        weir.check_line('who', coalesce(p_who, nullif(current_setting('role'), 'none'), session_user),
                        128),
        weir.check_line('the reason', p_reason, 512))).seq;
END $$;

-- The identity of an override: under the named rule, or the first rule that counts by exactly these
-- attributes. A named limit given in a call counts by `key`. A tag is looked up under the named
-- rule, or under all rules, if those that count by attributes all count by the same ones.
CREATE OR REPLACE FUNCTION weir.overridden(
    p_policy text, p_attributes jsonb, p_key text, p_rule text, p_named boolean, p_tag text,
    OUT key uuid, OUT "by" text, OUT rules jsonb, OUT document jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    attributes jsonb := weir.check_attributes(coalesce(p_attributes, '{}'));
    names text[];
    first jsonb;
BEGIN
    IF p_named THEN
        IF p_policy !~ '\A[A-Za-z0-9_.:/-]{1,64}\Z' OR EXISTS (SELECT FROM weir.policies p
                                                                WHERE p.name = p_policy) THEN
            PERFORM weir.reject('p_named: the name must be 1 to 64 of a-z A-Z 0-9 _ . : / - '
                                'and not the name of a policy');
        END IF;
        document := '{"rules": [{"name": "default", "by": ["key"]}]}';
    ELSE
        document := weir.document_of(p_policy);
    END IF;
    IF (p_key IS NOT NULL)::integer + (p_tag IS NOT NULL)::integer + (attributes <> '{}')::integer > 1
    THEN
        PERFORM weir.reject('give a key, attributes or a tag, not several of them');
    ELSIF p_tag !~ '\A[0-9a-f]{32}\Z' THEN
        PERFORM weir.reject('a tag is 32 hexadecimal digits, as logs and views have it');
    ELSIF p_key IS NOT NULL THEN
        attributes := jsonb_build_object(weir.sole_attribute(p_policy, document), p_key);
    END IF;
    names := ARRAY(SELECT k FROM jsonb_object_keys(attributes) AS k ORDER BY 1);
    IF p_rule IS NOT NULL
       AND NOT document->'rules' @> jsonb_build_array(jsonb_build_object('name', p_rule)) THEN
        PERFORM weir.reject(format('policy ''%s'' has no rule ''%s''', p_policy, left(p_rule, 64)));
    END IF;
    SELECT jsonb_agg(r) INTO rules
      FROM jsonb_array_elements(document->'rules') AS r
     WHERE (p_rule IS NULL OR r->>'name' = p_rule)
       AND CASE WHEN p_tag IS NOT NULL THEN jsonb_array_length(r->'by') > 0
                ELSE ARRAY(SELECT b FROM jsonb_array_elements_text(r->'by') AS b ORDER BY 1) = names
                END;
    first := rules->0;
    IF first IS NULL THEN
        PERFORM weir.reject(format('no rule of policy ''%s'' counts by exactly these attributes',
                                   p_policy));
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(rules) AS r
                   WHERE (r->'by', coalesce(r->'ipv6_prefix', '64'))
                      IS DISTINCT FROM (first->'by', coalesce(first->'ipv6_prefix', '64'))) THEN
        PERFORM weir.reject('rules count these identities in different ways (the order of `by`, or '
                            'ipv6_prefix): name one of them');
    END IF;
    "by" := array_to_string(ARRAY(SELECT jsonb_array_elements_text(first->'by')), ',');
    key := coalesce(p_tag::uuid, weir.tag_of_rule((SELECT bytes FROM weir.secret), p_policy, first,
                                                  attributes));
END $$;

-- ---- overrides ------------------------------------------------------------------------------------

-- Exempt an identity, block it, or give it another limit, burst or plan. It applies to all rules
-- that count by exactly these attributes, or to the named rule. p_named: the policy is the name of
-- a limit given in calls.
CREATE OR REPLACE FUNCTION weir.set_override(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_key text DEFAULT NULL,
    p_effect text DEFAULT NULL, p_limit bigint DEFAULT NULL, p_burst bigint DEFAULT NULL,
    p_plan text DEFAULT NULL, p_rule text DEFAULT NULL, p_for interval DEFAULT NULL,
    p_who text DEFAULT NULL, p_reason text DEFAULT NULL, p_named boolean DEFAULT false,
    p_tag text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_numbers CONSTANT boolean := p_limit IS NOT NULL OR p_burst IS NOT NULL;
    whom record;
    own jsonb;
BEGIN
    IF (p_effect IS NOT NULL)::integer + has_numbers::integer + (p_plan IS NOT NULL)::integer <> 1
       OR coalesce(p_effect, 'block') NOT IN ('exempt', 'block') THEN
        PERFORM weir.reject('give one of these: an effect, which is exempt or block; a limit, a burst '
                            'or both; a plan');
    END IF;
    whom := weir.overridden(p_policy, p_attributes, p_key, p_rule, p_named, p_tag);
    IF has_numbers AND NOT p_named THEN
        FOR own IN SELECT jsonb_array_elements(whom.rules) LOOP
            PERFORM weir.complete(own->>'algorithm', coalesce(p_limit, (own->>'limit')::bigint),
                                  (own->>'window_ms')::bigint, p_burst, NULL);
        END LOOP;
    ELSIF coalesce(p_limit, 0) < 0 OR coalesce(p_burst, 1) < 1 THEN
        PERFORM weir.reject('limit must be at least 0, and burst at least 1');
    END IF;
    IF p_plan IS NOT NULL AND (whom.rules->0->'plans'->p_plan) IS NULL THEN
        PERFORM weir.reject(format('rule ''%s'' of policy ''%s'' has no plan ''%s''',
                                   whom.rules->0->>'name', p_policy, left(p_plan, 64)));
    END IF;
    RETURN weir.append_change(
        'override', CASE WHEN has_numbers THEN 'limit' WHEN p_plan IS NOT NULL THEN 'plan'
                         ELSE p_effect END,
        whom.key, p_limit, p_burst, p_for, p_policy, p_rule, whom."by", p_plan, p_who, p_reason);
END $$;

-- ---- plans ----------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION weir.plan_key(p_attributes jsonb, OUT key uuid, OUT "by" text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM weir.check_attributes(coalesce(p_attributes, '{}'));
    "by" := (SELECT string_agg(k, ',') FROM jsonb_object_keys(p_attributes) AS k);
    IF "by" IS NULL OR (SELECT count(*) FROM jsonb_object_keys(p_attributes)) <> 1 THEN
        PERFORM weir.reject('a plan is assigned by one attribute, such as the tenant: give one');
    ELSIF "by" !~ '\A[A-Za-z0-9_.:/-]{1,64}\Z' THEN
        PERFORM weir.reject('the attribute''s name is 1 to 64 of a-z A-Z 0-9 _ . : / -');
    END IF;
    key := weir.tag_of_rule((SELECT bytes FROM weir.secret), 'all',
                            jsonb_build_object('name', "by", 'by', jsonb_build_array("by")),
                            p_attributes);
END $$;

-- Assign a plan to a value of an attribute: in one policy, or in all.
CREATE OR REPLACE FUNCTION weir.set_plan(
    p_plan text, p_attributes jsonb, p_policy text DEFAULT NULL, p_for interval DEFAULT NULL,
    p_who text DEFAULT NULL, p_reason text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    whom record;
BEGIN
    IF p_policy IS NOT NULL THEN
        PERFORM weir.document_of(p_policy);
    END IF;
    IF NOT EXISTS (SELECT FROM weir.policies p, jsonb_array_elements(p.document->'rules') AS r
                    WHERE (p_policy IS NULL OR p.name = p_policy) AND r->'plans' ? p_plan) THEN
        PERFORM weir.reject(format('no rule of %s has a plan ''%s''',
                                   coalesce('policy ''' || p_policy || '''', 'any policy'),
                                   left(p_plan, 64)));
    END IF;
    whom := weir.plan_key(p_attributes);
    RETURN weir.append_change('plan', 'plan', whom.key, NULL, NULL, p_for, p_policy, NULL, whom."by",
                          p_plan, p_who, p_reason);
END $$;

-- ---- modes ----------------------------------------------------------------------------------------

-- Set the mode of a policy, or of a named limit given in calls.
CREATE OR REPLACE FUNCTION weir.set_mode(
    p_policy text, p_mode text, p_for interval DEFAULT NULL, p_who text DEFAULT NULL,
    p_reason text DEFAULT NULL, p_named boolean DEFAULT false)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_mode IS NULL OR p_mode NOT IN ('enforce', 'shadow', 'off') THEN
        PERFORM weir.reject('mode is enforce, shadow or off');
    ELSIF NOT p_named THEN
        PERFORM weir.document_of(p_policy);
    ELSE
        PERFORM weir.overridden(p_policy, '{"key": "any"}', NULL, NULL, true, NULL);
    END IF;
    RETURN weir.append_change('mode', 'mode', '00000000-0000-0000-0000-000000000000', NULL, NULL, p_for,
                          p_policy, NULL, '', p_mode, p_who, p_reason);
END $$;

-- ---- clear and list -------------------------------------------------------------------------------

-- What is in force: the last entry of each kind, unless it has expired.
CREATE OR REPLACE FUNCTION weir.in_force()
RETURNS TABLE (id bigint, at timestamptz, kind text, policy text, rule text, "by" text, tag text,
               effect text, "limit" bigint, burst bigint, value text, expires timestamptz, who text,
               reason text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.seq, to_timestamp(l.at / 1000.0), l.kind, nullif(l.policy, ''), nullif(l.rule, ''),
           nullif(l."by", ''),
           CASE WHEN l.kind <> 'mode' THEN replace(l.key::text, '-', '') END, l.effect,
           nullif(l."limit", -1), nullif(l.burst, -1), nullif(l.value, ''),
           CASE WHEN l.expires > 0 THEN to_timestamp(l.expires / 1000.0) END, l.who, l.reason
      FROM (SELECT DISTINCT ON (kind, policy, rule, key) *
              FROM weir.ledger ORDER BY kind, policy, rule, key, seq DESC) AS l
     WHERE l.effect <> 'removed' AND l.kind IN ('override', 'plan', 'mode')
       AND (l.expires = 0
            OR l.expires > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
     ORDER BY l.seq
$$;

-- Clear the change with this id; returns the id of the new entry, NULL if nothing is in force.
CREATE OR REPLACE FUNCTION weir.clear(p_id bigint, p_who text DEFAULT NULL, p_reason text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry weir.ledger;
BEGIN
    SELECT l.* INTO entry FROM weir.ledger l WHERE l.seq = (SELECT f.id FROM weir.in_force() AS f
                                                             WHERE f.id = p_id);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN weir.append_change(entry.kind, 'removed', entry.key, NULL, NULL, NULL, entry.policy,
                          entry.rule, entry."by", NULL, p_who, p_reason);
END $$;

CREATE OR REPLACE FUNCTION weir.clear_of(
    p_kind text, p_key uuid, p_policy text, p_rule text, p_who text, p_reason text)
RETURNS bigint LANGUAGE sql AS $$
    SELECT weir.clear((SELECT max(l.seq) FROM weir.ledger l
                        WHERE l.kind = p_kind AND l.key = p_key
                          AND l.policy = coalesce(p_policy, '') AND l.rule = coalesce(p_rule, '')),
                      p_who, p_reason)
$$;

CREATE OR REPLACE FUNCTION weir.clear_override(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_key text DEFAULT NULL, p_rule text DEFAULT NULL,
    p_who text DEFAULT NULL, p_reason text DEFAULT NULL, p_named boolean DEFAULT false,
    p_tag text DEFAULT NULL)
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.clear_of('override',
                         (weir.overridden(p_policy, p_attributes, p_key, p_rule, p_named,
                                          p_tag)).key,
                         p_policy, p_rule, p_who, p_reason)
$$;

CREATE OR REPLACE FUNCTION weir.clear_plan(
    p_attributes jsonb, p_policy text DEFAULT NULL, p_who text DEFAULT NULL,
    p_reason text DEFAULT NULL)
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.clear_of('plan', (weir.plan_key(p_attributes)).key, p_policy, NULL, p_who, p_reason)
$$;

CREATE OR REPLACE FUNCTION weir.clear_mode(
    p_policy text, p_who text DEFAULT NULL, p_reason text DEFAULT NULL)
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.clear_of('mode', '00000000-0000-0000-0000-000000000000', p_policy, NULL, p_who,
                         p_reason)
$$;

-- Decisions of each policy in the last p_for, to the minute, of servers and SQL callers; NULL: all.
CREATE OR REPLACE FUNCTION weir.stats(
    p_policy text DEFAULT NULL, p_for interval DEFAULT interval '1 hour')
RETURNS TABLE (policy text, checks bigint, allowed bigint, denied bigint, shadow_denied bigint,
               last_minute timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.policy, sum(c.allowed + c.denied)::bigint, sum(c.allowed)::bigint,
           sum(c.denied)::bigint, sum(c.shadow_denied)::bigint, max(c.minute)
      FROM weir.checks c
     WHERE c.minute > now() - p_for AND (p_policy IS NULL OR c.policy = p_policy)
     GROUP BY c.policy ORDER BY c.policy
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.set_override(text, jsonb, text, text, bigint, bigint, text, text, interval, text, text,
                      boolean, text),
    weir.set_plan(text, jsonb, text, interval, text, text),
    weir.set_mode(text, text, interval, text, text, boolean),
    weir.clear(bigint, text, text),
    weir.clear_override(text, jsonb, text, text, text, text, boolean, text),
    weir.clear_plan(jsonb, text, text, text),
    weir.clear_mode(text, text, text),
    weir.in_force(), weir.reset(text, jsonb, text, text), weir.push_policies(jsonb),
    weir.pushed_policies(), weir.compare_policies(jsonb)
    TO weir_operator;
GRANT EXECUTE ON FUNCTION weir.stats(text, interval) TO weir_viewer;

INSERT INTO weir.migrations (number, name) VALUES (11, 'operate') ON CONFLICT DO NOTHING;
COMMIT;
