/* no_threads.c - loaded before a test that meson.build calls unthreaded: ends it if it is not. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    (void)thread;
    (void)attributes;
    (void)run;
    (void)arg;
    fputs("it starts a thread: take it off unthreaded_tests in meson.build\n", stderr);
    abort();
}
