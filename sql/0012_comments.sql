-- 0012_comments.sql - what each thing here is, for psql and other tools that show it.
BEGIN;
SET LOCAL client_min_messages = warning;

COMMENT ON SCHEMA weir IS 'Rate limits: see docs/sql.md of weir.';

COMMENT ON TABLE weir.history IS 'Decisions by the minute, kept for 7 days.';
COMMENT ON TABLE weir.history_hours IS 'Decisions by the hour, kept for 90 days.';
COMMENT ON TABLE weir.ledger IS 'What operators have changed, in order; only added to.';
COMMENT ON TABLE weir.denials IS 'Who was denied, by the minute and by tag, kept for 7 days.';
COMMENT ON TABLE weir.migrations IS 'What was applied, by weir migrate or by hand.';
COMMENT ON TABLE weir.policies IS
    'Policies for those who ask by SQL, as weir policy push has put them here.';
COMMENT ON TABLE weir.secret IS
    'The key to all hashes of identities. Who has it can tell whose a row is.';
COMMENT ON TABLE weir.states IS
    'What is counted: a row for each key under a rule. A key is a keyed hash; the identity is nowhere.';
COMMENT ON TABLE weir.tally IS
    'What those who ask by SQL were answered, until upkeep sums it up. Not logged.';
COMMENT ON TABLE weir.turns IS
    'A row for each thing that one caller at a time does: who does it holds the row.';

COMMENT ON VIEW weir.audit IS 'What operators have changed, for people.';
COMMENT ON VIEW weir.deny_rate IS 'How effective each policy was in the last 7 days.';
COMMENT ON VIEW weir.checks IS
    'Whole checks by the minute and policy, with what is not summed up yet.';
COMMENT ON VIEW weir.most_denied IS 'Who was denied most in the last hour, by tag.';
COMMENT ON VIEW weir.denied_minutes IS
    'The minutes of the last day in which a policy denied anything.';

COMMENT ON TYPE weir.answer IS 'What a check is answered.';
COMMENT ON TYPE weir.daily_count IS 'What weir.increment_rate_limit() answers.';
COMMENT ON TYPE weir.log IS 'The log of a sliding window. Internal.';
COMMENT ON TYPE weir.prepared IS 'A check that is ready to be judged. Internal.';
COMMENT ON TYPE weir.request_count IS 'What weir.upsert_rate_limit() answers.';

COMMENT ON PROCEDURE weir.upkeep IS
    'Remove all that has expired, and sum up the tally, in small transactions. For pg_cron or any other clock.';

COMMENT ON FUNCTION weir.answer_prepared IS 'Judge a prepared check, and answer it. Internal.';
COMMENT ON FUNCTION weir.append_entry IS 'Add to the ledger. For weir_server.';
COMMENT ON FUNCTION weir.ask IS 'Ask by a policy. Internal.';
COMMENT ON FUNCTION weir.ask_limit IS
    'Ask with a limit that comes along and has no name. Internal.';
COMMENT ON FUNCTION weir.assigned_plan IS
    'The plan that was assigned to one of these attributes. Internal.';
COMMENT ON FUNCTION weir.bucket IS 'The start of the bucket of a sliding window. Internal.';
COMMENT ON FUNCTION weir.charge IS
    'Charge one key if it passes, by the short way. For weir_server.';
COMMENT ON FUNCTION weir.charge_many IS
    'Charge many keys that pass, by the short way. For weir_server.';
COMMENT ON FUNCTION weir.check IS 'May this pass? If so, count it. For weir_caller.';
COMMENT ON FUNCTION weir.check_attributes IS 'Reject attributes that are none. Internal.';
COMMENT ON FUNCTION weir.check_cost IS 'Reject a cost that is none. Internal.';
COMMENT ON FUNCTION weir.check_document IS 'Reject a policy''s document that is none. Internal.';
COMMENT ON FUNCTION weir.check_line IS 'Reject what is not one line of text. Internal.';
COMMENT ON FUNCTION weir.check_many IS 'Many checks, answered in their order. For weir_caller.';
COMMENT ON FUNCTION weir.check_rate_limit IS
    'At most p_limit in any p_window_seconds. Returns rows, which is one. For weir_caller.';
COMMENT ON FUNCTION weir.cleanup_old_rate_limit_buckets IS
    'Remove what has expired; returns how many rows that were. For weir_caller.';
COMMENT ON FUNCTION weir.clear IS
    'Take back what is in force under this id; NULL if nothing is. For weir_operator.';
COMMENT ON FUNCTION weir.clear_mode IS
    'Let a policy have its own mode again; NULL if it has. For weir_operator.';
COMMENT ON FUNCTION weir.clear_of IS 'Take back what is in force of a kind. Internal.';
COMMENT ON FUNCTION weir.clear_override IS
    'Take back the override of an identity; NULL if there is none. For weir_operator.';
COMMENT ON FUNCTION weir.clear_plan IS
    'Take back an assigned plan; NULL if there is none. For weir_operator.';
COMMENT ON FUNCTION weir.compare_policies IS
    'What a push of these would do to each. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.complete IS
    'Fill in what was left out of a limit, and check its bounds. Internal.';
COMMENT ON FUNCTION weir.conclude IS 'What to answer to a check that was judged. Internal.';
COMMENT ON FUNCTION weir.count_answer IS 'Note an answer in the tally. Internal.';
COMMENT ON FUNCTION weir.count_in_window IS 'Count in a window that comes along. Internal.';
COMMENT ON FUNCTION weir.document_of IS 'A policy''s document, or an error. Internal.';
COMMENT ON FUNCTION weir.drained IS 'What is used of a bucket by now. Internal.';
COMMENT ON FUNCTION weir.due IS 'When a cell is due. Internal.';
COMMENT ON FUNCTION weir.expose IS
    'Make the functions that replace others'' callable in another schema. For the owner.';
COMMENT ON FUNCTION weir.fresh IS 'What the row of a new key holds. Internal.';
COMMENT ON FUNCTION weir.hmac IS 'HMAC-SHA256. Internal.';
COMMENT ON FUNCTION weir.identity_of IS 'The bytes that stand for who a rule counts. Internal.';
COMMENT ON FUNCTION weir.in_force IS
    'Overrides, plans and modes that are in force. For weir_operator.';
COMMENT ON FUNCTION weir.increment_rate_limit IS
    'At most p_limit a day, from 0:00 UTC. Returns one row. For weir_caller.';
COMMENT ON FUNCTION weir.is_exempt IS 'Is one of these exemptions met? Internal.';
COMMENT ON FUNCTION weir.judge IS 'Decide on many questions at once. For weir_server.';
COMMENT ON FUNCTION weir.judge_prepared IS 'Judge prepared checks by one call. Internal.';
COMMENT ON FUNCTION weir.keep_the_ledger IS 'Trigger: rejects all but additions. Internal.';
COMMENT ON FUNCTION weir.key_of IS 'The key of an identity under a rule. Internal.';
COMMENT ON FUNCTION weir.limit IS
    'A check with a limit that comes along, and perhaps a name. For weir_caller.';
COMMENT ON FUNCTION weir.live IS 'What counts in a sliding window. Internal.';
COMMENT ON FUNCTION weir.locked_keys IS 'Keys that an open transaction has locked. For weir_server.';
COMMENT ON FUNCTION weir.log_gone IS 'How much of a log has left the window. Internal.';
COMMENT ON FUNCTION weir.log_left IS 'A log without what has left the window. Internal.';
COMMENT ON FUNCTION weir.may_pass IS 'May this amount pass? Internal.';
COMMENT ON FUNCTION weir.next_at IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.next_expires IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.next_log IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.next_oldest IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.next_other IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.next_used IS 'What a row holds when it is charged. Internal.';
COMMENT ON FUNCTION weir.normal_email IS 'An e-mail address as it is counted. Internal.';
COMMENT ON FUNCTION weir.overridden IS 'Whom an override is for. Internal.';
COMMENT ON FUNCTION weir.apply_changes IS 'A policy''s document as it is for who asks. Internal.';
COMMENT ON FUNCTION weir.apply_change IS 'A rule as an entry of the ledger makes it. Internal.';
COMMENT ON FUNCTION weir.peek IS 'What a check would say; counts nothing. For weir_caller.';
COMMENT ON FUNCTION weir.plan_key IS 'Whom a plan is assigned to. Internal.';
COMMENT ON FUNCTION weir.prepare IS 'Make a check ready to be judged. Internal.';
COMMENT ON FUNCTION weir.prepare_json IS 'Make one of many checks ready. Internal.';
COMMENT ON FUNCTION weir.prepare_named IS 'Make a check with a named limit ready. Internal.';
COMMENT ON FUNCTION weir.prepare_nameless IS 'Make a check with a limit ready. Internal.';
COMMENT ON FUNCTION weir.prepare_policy IS 'Make a check by a policy ready. Internal.';
COMMENT ON FUNCTION weir.push_policies IS
    'Make these the policies, all of them: an object of documents by name. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.pushed_policies IS
    'The policies as they were pushed. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.read_entries IS 'Read on in the ledger. For weir_server.';
COMMENT ON FUNCTION weir.read_history IS
    'What was decided, in steps of so many ms. For weir_server.';
COMMENT ON FUNCTION weir.read_ip IS 'Read an IP address. Internal.';
COMMENT ON FUNCTION weir.refund IS
    'Give back what was counted but did not happen. For weir_caller.';
COMMENT ON FUNCTION weir.reject IS 'Raise 22023 with this text. Internal.';
COMMENT ON FUNCTION weir.replace_secret IS
    'Take another secret; all that is counted is forgotten. For the owner.';
COMMENT ON FUNCTION weir.report IS 'Add what a server has decided to the history. For weir_server.';
COMMENT ON FUNCTION weir.reset IS
    'Forget all that is counted for an identity. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.append_change IS 'Append what an operator asked for to the ledger. Internal.';
COMMENT ON FUNCTION weir.in_force_for IS 'What is in force for a key. Internal.';
COMMENT ON FUNCTION weir.server_secret IS 'What identities are hashed with. For weir_server.';
COMMENT ON FUNCTION weir.set_mode IS
    'Put a policy into the mode enforce, shadow or off; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.set_override IS
    'Exempt or block an identity, or give it another limit, burst or plan; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.set_plan IS
    'Assign a plan to who has this value of an attribute; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.sized IS 'A value with its length before it. Internal.';
COMMENT ON FUNCTION weir.sole_attribute IS 'The attribute that a bare key stands for. Internal.';
COMMENT ON FUNCTION weir.stats IS
    'What each policy decided in so long. For weir_viewer and weir_operator.';
COMMENT ON FUNCTION weir.sum_up IS 'Sum up the tally of minutes that are over. Internal.';
COMMENT ON FUNCTION weir.tag_of IS 'What logs, views and operators call an identity. Internal.';
COMMENT ON FUNCTION weir.tag_of_rule IS 'What who asks is called by a rule. Internal.';
COMMENT ON FUNCTION weir.take_cell IS 'GCRA in nanoseconds. Internal.';
COMMENT ON FUNCTION weir.tidy IS 'One round of upkeep. For weir_server.';
COMMENT ON FUNCTION weir.tidy_states IS 'Remove rows that have expired. Internal.';
COMMENT ON FUNCTION weir.unexpose IS 'Take back what weir.expose() did. For the owner.';
COMMENT ON FUNCTION weir.upsert_rate_limit IS
    'How many requests there were in this window, with this one. Returns one row. For weir_caller.';
COMMENT ON FUNCTION weir.with_numbers IS 'A rule with other numbers. Internal.';
COMMENT ON FUNCTION weir.write_ip IS 'An IP address as it is counted. Internal.';

INSERT INTO weir.migrations (number, name) VALUES (12, 'comments') ON CONFLICT DO NOTHING;
COMMIT;
