-- 0015_corrections.sql - the ledger also has corrections of what is counted: resets, refunds and
-- charges by operators; and reloads of policies. They are in the audit log, and never in force. This
-- is for a ledger that was made before there were any.
BEGIN;
SET LOCAL client_min_messages = warning;

ALTER TABLE weir.ledger
    DROP CONSTRAINT IF EXISTS ledger_kind_check,
    ADD CONSTRAINT ledger_kind_check
        CHECK (kind IN ('override', 'plan', 'mode', 'correction', 'reload')),
    DROP CONSTRAINT IF EXISTS ledger_effect_check,
    ADD CONSTRAINT ledger_effect_check
        CHECK (effect IN ('removed', 'exempt', 'block', 'limit', 'plan', 'mode', 'reset', 'refund',
                          'charge', 'loaded', 'failed'));

INSERT INTO weir.migrations (number, name) VALUES (15, 'corrections') ON CONFLICT DO NOTHING;
COMMIT;
