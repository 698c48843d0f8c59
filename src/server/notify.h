/* notify.h - tells systemd how the service is (the protocol of sd_notify). Does nothing where no
 * NOTIFY_SOCKET is set. */
#ifndef WEIR_SERVER_NOTIFY_H
#define WEIR_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Each returns whether the message was handed over; nobody needs to care. */
bool notify_ready(void);
bool notify_stopping(void);
bool notify_reloading(void); /* until the next notify_ready() */
bool notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool notify_main_pid(pid_t pid); /* this process is replaced by that one */

/* How often notify_watchdog() is to be called: half of what systemd allows; 0: not at all. */
int64_t notify_watchdog_interval_ms(void);
bool notify_watchdog(void);

#endif
