-- 0008_ledger.sql - the changes of operators, in order.
--
-- Overrides, assigned plans, live modes, corrections and reloads, as in src/store/ledger.h. The last entry of a kind is
-- in force until it expires; all entries are the audit log. Entries are never changed or removed.
--
-- Numbers have no gaps and are committed in order, so a reader that has read up to a number has
-- missed none. For this, appending sessions wait for each other.
BEGIN;
SET LOCAL client_min_messages = warning;

CREATE TABLE IF NOT EXISTS weir.ledger (
    seq     bigint PRIMARY KEY,
    at      bigint NOT NULL,  -- ms since the epoch, by the database clock
    kind text NOT NULL CHECK (kind IN ('override', 'plan', 'mode', 'correction', 'reload')),
    effect  text NOT NULL
            CHECK (effect IN ('removed', 'exempt', 'block', 'limit', 'plan', 'mode', 'reset',
                              'refund', 'charge', 'loaded', 'failed')),
    key     uuid NOT NULL,    -- tag of the identity; zero: for all
    "limit" bigint NOT NULL,  -- -1: that of the rule
    burst   bigint NOT NULL,  -- likewise
    expires bigint NOT NULL,  -- ms since the epoch; 0: never
    policy  text NOT NULL,    -- '': all
    rule    text NOT NULL,    -- '': all rules that count by the same
    "by"    text NOT NULL,    -- names of attributes, comma-separated; of a reload, a checksum
    value   text NOT NULL,    -- the plan's name, or the mode's, or how much was corrected, or which
                              -- instance has reloaded its policies
    who     text NOT NULL,
    reason  text NOT NULL
);
ALTER TABLE weir.ledger ENABLE ROW LEVEL SECURITY;

CREATE OR REPLACE FUNCTION weir.keep_the_ledger() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;

DROP TRIGGER IF EXISTS only_added_to ON weir.ledger;
CREATE TRIGGER only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON weir.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION weir.keep_the_ledger();

-- Sends NOTIFY weir, 'ledger'.
CREATE OR REPLACE FUNCTION weir.append_entry(
    kind text, effect text, key uuid, "limit" bigint, burst bigint, expires bigint,
    policy text, rule text, "by" text, value text, who text, reason text,
    OUT seq bigint, OUT at bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    LOCK TABLE weir.ledger IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO weir.ledger AS l
    SELECT coalesce(max(o.seq), 0) + 1,
           floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
           append_entry.kind, append_entry.effect, append_entry.key, append_entry."limit",
           append_entry.burst, append_entry.expires, append_entry.policy, append_entry.rule,
           append_entry."by", append_entry.value, append_entry.who, append_entry.reason
      FROM weir.ledger o
    RETURNING l.seq, l.at INTO append_entry.seq, append_entry.at;
    PERFORM pg_notify('weir', 'ledger');
END $$;

CREATE OR REPLACE FUNCTION weir.read_entries(after bigint, most integer) RETURNS SETOF weir.ledger
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM weir.ledger WHERE seq > after ORDER BY seq LIMIT most
$$;

-- For operators, dashboards and alerts.
CREATE OR REPLACE VIEW weir.audit AS
SELECT seq AS id,
       to_timestamp(at / 1000.0) AS at,
       kind,
       nullif(policy, '') AS policy,
       nullif(rule, '') AS rule,
       CASE WHEN kind <> 'reload' THEN nullif("by", '') END AS "by",
       effect,
       nullif("limit", -1) AS "limit",
       nullif(burst, -1) AS burst,
       nullif(value, '') AS value,
       CASE WHEN expires > 0 THEN to_timestamp(expires / 1000.0) END AS expires,
       who,
       reason,
       CASE WHEN kind NOT IN ('mode', 'reload') THEN replace(key::text, '-', '') END AS tag
  FROM weir.ledger
 ORDER BY seq;

REVOKE ALL ON weir.ledger, weir.audit FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT SELECT ON weir.audit TO weir_viewer;
GRANT EXECUTE ON FUNCTION
    weir.append_entry(text, text, uuid, bigint, bigint, bigint, text, text, text, text, text, text),
    weir.read_entries(bigint, integer)
    TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (8, 'ledger') ON CONFLICT DO NOTHING;
COMMIT;
