-- 0001_tables.sql - drops the schema with all that is counted in it, and the secret.
--
-- The roles stay if anything else has to do with them, or somebody is a member: they belong to the
-- whole cluster, and who was let in is so when they are needed again.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP SCHEMA IF EXISTS weir CASCADE;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['weir_server', 'weir_caller', 'weir_operator', 'weir_viewer'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                               WHERE m.roleid = to_regrole(name)
                                 AND pg_get_userbyid(m.member)
                                     <> ALL (ARRAY['weir_server', 'weir_caller', 'weir_operator',
                                                  current_user]));
        BEGIN
            EXECUTE format('DROP ROLE IF EXISTS %I', name);
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
            RAISE NOTICE 'role % stays', name;
        END;
    END LOOP;
END $$;
COMMIT;
