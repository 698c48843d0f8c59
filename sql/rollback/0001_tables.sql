-- 0001_tables.sql - drops the schema with all counts, and the secret.
--
-- Roles belong to the cluster. A role stays if other objects depend on it or it has members, so that
-- its members keep their rights when weir is installed again.
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
