-- 0012_comments.sql - COMMENT ON every object, for psql and other tools.
BEGIN;
SET LOCAL client_min_messages = warning;

COMMENT ON SCHEMA weir IS 'Rate limits: see docs/sql.md of weir.';

COMMENT ON TABLE weir.history IS 'Decisions by the minute, kept for 7 days.';
COMMENT ON TABLE weir.history_hours IS 'Decisions by the hour, kept for 90 days.';
COMMENT ON TABLE weir.ledger IS 'Changes of operators, in order; append-only.';
COMMENT ON TABLE weir.denials IS 'Denials by the minute and by tag, kept for 7 days.';
COMMENT ON TABLE weir.migrations IS 'Applied migrations, by weir migrate or by hand.';
COMMENT ON TABLE weir.policies IS
    'Policies for SQL callers, written by weir policy push.';
COMMENT ON TABLE weir.secret IS
    'The HMAC secret of all identities. It lets its reader link a row to an identity.';
COMMENT ON TABLE weir.states IS
    'Counters: a row for each key under a rule. A key is a keyed hash; identities are not stored.';
COMMENT ON TABLE weir.tally IS
    'Answers to SQL callers, until upkeep sums them up. Unlogged.';
COMMENT ON TABLE weir.turns IS
    'Mutexes: a row for each task that one session at a time may do. The session locks the row.';

COMMENT ON VIEW weir.audit IS 'The audit log: changes of operators.';
COMMENT ON VIEW weir.deny_rate IS 'The deny rate of each policy in the last 7 days.';
COMMENT ON VIEW weir.checks IS
    'Whole checks by the minute and policy, including the tally.';
COMMENT ON VIEW weir.most_denied IS 'The identities denied most in the last hour, by tag.';
COMMENT ON VIEW weir.denied_minutes IS
    'The minutes of the last day in which a policy denied a request.';

COMMENT ON TYPE weir.answer IS 'The answer to a check.';
COMMENT ON TYPE weir.daily_count IS 'The result of weir.increment_rate_limit().';
COMMENT ON TYPE weir.log IS 'The log of a sliding window. Internal.';
COMMENT ON TYPE weir.prepared IS 'A check that is ready to be judged. Internal.';
COMMENT ON TYPE weir.request_count IS 'The result of weir.upsert_rate_limit().';

COMMENT ON PROCEDURE weir.upkeep IS
    'Remove expired rows and sum up the tally, in small transactions. For pg_cron or a scheduler.';

COMMENT ON FUNCTION weir.answer_prepared IS 'Judge a prepared check, and answer it. Internal.';
COMMENT ON FUNCTION weir.append_entry IS 'Append an entry to the ledger. For weir_server.';
COMMENT ON FUNCTION weir.ask IS 'Run a verb against a policy. Internal.';
COMMENT ON FUNCTION weir.ask_limit IS
    'Run a verb with an unnamed limit given in the call. Internal.';
COMMENT ON FUNCTION weir.assigned_plan IS
    'The plan assigned to one of these attributes. Internal.';
COMMENT ON FUNCTION weir.bucket IS 'The start of the bucket of a sliding window. Internal.';
COMMENT ON FUNCTION weir.charge_one IS
    'Charge one key if it passes: the fast path. For weir_server.';
COMMENT ON FUNCTION weir.charge_many IS
    'Charge many keys that pass: the fast path. For weir_server.';
COMMENT ON FUNCTION weir.check IS
    'Decide whether a request may pass, and count it if so. For weir_caller.';
COMMENT ON FUNCTION weir.check_attributes IS 'Reject invalid attributes. Internal.';
COMMENT ON FUNCTION weir.costs_of IS 'What a request costs, by the names of amounts. Internal.';
COMMENT ON FUNCTION weir.check_cost IS 'Reject an invalid cost. Internal.';
COMMENT ON FUNCTION weir.check_document IS 'Reject an invalid document of a policy. Internal.';
COMMENT ON FUNCTION weir.check_line IS 'Reject what is not one line of text. Internal.';
COMMENT ON FUNCTION weir.check_many IS 'Many checks, answered in order. For weir_caller.';
COMMENT ON FUNCTION weir.check_rate_limit IS
    'At most p_limit in any p_window_seconds. Returns a set of one row. For weir_caller.';
COMMENT ON FUNCTION weir.cleanup_old_rate_limit_buckets IS
    'Remove expired rows; returns how many. For weir_caller.';
COMMENT ON FUNCTION weir.clear IS
    'Clear the change with this id; NULL if it is not in force. For weir_operator.';
COMMENT ON FUNCTION weir.clear_mode IS
    'Clear the live mode of a policy; NULL if there is none. For weir_operator.';
COMMENT ON FUNCTION weir.clear_of IS 'Clear the change of a kind that is in force. Internal.';
COMMENT ON FUNCTION weir.clear_override IS
    'Clear the override of an identity; NULL if there is none. For weir_operator.';
COMMENT ON FUNCTION weir.clear_plan IS
    'Clear an assigned plan; NULL if there is none. For weir_operator.';
COMMENT ON FUNCTION weir.compare_policies IS
    'What pushing these policies would change. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.calendar_bounds IS
    'Boundaries of windows of the calendar around a time. Internal.';
COMMENT ON FUNCTION weir.complete IS
    'Fill in the defaults of a limit, and check its bounds. Internal.';
COMMENT ON FUNCTION weir.conclude IS 'Build the answer to a judged check. Internal.';
COMMENT ON FUNCTION weir.count_answer IS 'Count an answer in the tally. Internal.';
COMMENT ON FUNCTION weir.count_in_window IS 'Count in a window given in the call. Internal.';
COMMENT ON FUNCTION weir.document_of IS 'A policy''s document, or an error. Internal.';
COMMENT ON FUNCTION weir.drained IS 'The fill level of a bucket now. Internal.';
COMMENT ON FUNCTION weir.due IS 'When a cell is due. Internal.';
COMMENT ON FUNCTION weir.expose IS
    'Make the drop-in functions callable in another schema. For the owner.';
COMMENT ON FUNCTION weir.fresh IS 'The columns of a new key''s row. Internal.';
COMMENT ON FUNCTION weir.hmac IS 'HMAC-SHA256. Internal.';
COMMENT ON FUNCTION weir.identity_of IS 'The identity that a rule counts, as bytes. Internal.';
COMMENT ON FUNCTION weir.in_force IS
    'Overrides, plans and modes that are in force. For weir_operator.';
COMMENT ON FUNCTION weir.increment_rate_limit IS
    'At most p_limit a day, from 0:00 UTC. Returns one row. For weir_caller.';
COMMENT ON FUNCTION weir.is_exempt IS 'Does one of these exemptions match? Internal.';
COMMENT ON FUNCTION weir.judge IS 'Decide many questions in one call. For weir_server.';
COMMENT ON FUNCTION weir.judge_prepared IS 'Judge prepared checks by one call. Internal.';
COMMENT ON FUNCTION weir.keep_the_ledger IS 'Trigger: the ledger is append-only. Internal.';
COMMENT ON FUNCTION weir.key_of IS 'The key of an identity under a rule. Internal.';
COMMENT ON FUNCTION weir.limit IS
    'A check with a limit given in the call, optionally named. For weir_caller.';
COMMENT ON FUNCTION weir.live IS 'The count of a sliding window. Internal.';
COMMENT ON FUNCTION weir.locked_keys IS 'Keys that an open transaction has locked. For weir_server.';
COMMENT ON FUNCTION weir.log_gone IS 'The count of the expired part of a log. Internal.';
COMMENT ON FUNCTION weir.log_left IS 'A log without its expired part. Internal.';
COMMENT ON FUNCTION weir.may_pass IS 'May this amount pass? Internal.';
COMMENT ON FUNCTION weir.next_at IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.next_expires IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.next_log IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.next_oldest IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.next_other IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.next_used IS 'A column of a row after a charge. Internal.';
COMMENT ON FUNCTION weir.midnight IS 'When a day begins in a time zone. Internal.';
COMMENT ON FUNCTION weir.normal_email IS 'Normalize an e-mail address. Internal.';
COMMENT ON FUNCTION weir.overridden IS 'The identity of an override. Internal.';
COMMENT ON FUNCTION weir.apply_changes IS
    'A policy''s document with an identity''s overrides. Internal.';
COMMENT ON FUNCTION weir.apply_change IS 'Apply an entry of the ledger to a rule. Internal.';
COMMENT ON FUNCTION weir.peek IS 'What a check would answer; counts nothing. For weir_caller.';
COMMENT ON FUNCTION weir.plan_key IS 'The key of the identity of an assigned plan. Internal.';
COMMENT ON FUNCTION weir.prepare IS 'Prepare a check. Internal.';
COMMENT ON FUNCTION weir.prepare_json IS 'Prepare one of many checks. Internal.';
COMMENT ON FUNCTION weir.prepare_named IS 'Prepare a check with a named limit. Internal.';
COMMENT ON FUNCTION weir.prepare_nameless IS 'Prepare a check with an unnamed limit. Internal.';
COMMENT ON FUNCTION weir.windows_of_limit IS
    'The windows of a limit given in the call, with its start and lockout. Internal.';
COMMENT ON FUNCTION weir.prepare_policy IS 'Prepare a check against a policy. Internal.';
COMMENT ON FUNCTION weir.push_policies IS
    'Replace all policies: an object of documents by name. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.pushed_policies IS
    'The policies as they were pushed. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.read_entries IS 'Read new entries of the ledger. For weir_server.';
COMMENT ON FUNCTION weir.read_history IS
    'Decisions over time, in steps of p_step ms. For weir_server.';
COMMENT ON FUNCTION weir.read_ip IS 'Parse an IP address. Internal.';
COMMENT ON FUNCTION weir.charge IS
    'Count what has happened, whatever the limits say. For weir_caller.';
COMMENT ON FUNCTION weir.refund IS
    'Refund what was counted but did not happen. For weir_caller.';
COMMENT ON FUNCTION weir.reject IS 'Raise 22023 with this text. Internal.';
COMMENT ON FUNCTION weir.replace_secret IS
    'Replace the secret; this drops all counts. For the owner.';
COMMENT ON FUNCTION weir.report IS 'Add a server''s decisions to the history. For weir_server.';
COMMENT ON FUNCTION weir.reset IS
    'Drop all counts of an identity. For weir_server and weir_operator.';
COMMENT ON FUNCTION weir.append_change IS 'Append an operator''s change to the ledger. Internal.';
COMMENT ON FUNCTION weir.in_force_for IS 'What is in force for a key. Internal.';
COMMENT ON FUNCTION weir.server_secret IS 'The HMAC secret of identities. For weir_server.';
COMMENT ON FUNCTION weir.set_mode IS
    'Set the mode of a policy: enforce, shadow or off; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.set_override IS
    'Exempt or block an identity, or set its limit, burst or plan; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.set_plan IS
    'Assign a plan to a value of an attribute; returns an id. For weir_operator.';
COMMENT ON FUNCTION weir.sized IS 'A value with its length as prefix. Internal.';
COMMENT ON FUNCTION weir.sole_attribute IS
    'The only attribute of a policy, for a bare key. Internal.';
COMMENT ON FUNCTION weir.stats IS
    'Decisions of each policy in the last p_for. For weir_viewer and weir_operator.';
COMMENT ON FUNCTION weir.sum_up IS 'Sum up the tally of past minutes. Internal.';
COMMENT ON FUNCTION weir.tag_of IS 'The tag of an identity in logs and views. Internal.';
COMMENT ON FUNCTION weir.tag_of_rule IS 'The tag of the identity that a rule counts. Internal.';
COMMENT ON FUNCTION weir.take_cell IS 'GCRA in nanoseconds. Internal.';
COMMENT ON FUNCTION weir.tidy IS 'One round of upkeep. For weir_server.';
COMMENT ON FUNCTION weir.tidy_states IS 'Remove rows that have expired. Internal.';
COMMENT ON FUNCTION weir.unexpose IS 'Revert weir.expose(). For the owner.';
COMMENT ON FUNCTION weir.upsert_rate_limit IS
    'The number of requests in this window, this one included. Returns one row. For weir_caller.';
COMMENT ON FUNCTION weir.with_numbers IS 'A rule with other numbers. Internal.';
COMMENT ON FUNCTION weir.windows_of IS 'Which windows a rule has. Internal.';
COMMENT ON FUNCTION weir.write_ip IS 'Normalize an IP address. Internal.';

INSERT INTO weir.migrations (number, name) VALUES (12, 'comments') ON CONFLICT DO NOTHING;
COMMIT;
