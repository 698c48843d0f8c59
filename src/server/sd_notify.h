/* sd_notify.h - tells systemd how the service is (the protocol of sd_notify). Does nothing where no
 * NOTIFY_SOCKET is set. */
#ifndef WEIR_SERVER_SD_NOTIFY_H
#define WEIR_SERVER_SD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Each returns whether the message was handed over; callers may ignore it. */
bool sd_notify_ready(void);
bool sd_notify_stopping(void);
bool sd_notify_reloading(void);     /* until the next sd_notify_ready() */
bool sd_notify_main_pid(pid_t pid); /* this process is replaced by that one */

/* How often sd_notify_watchdog() is to be called: half of what systemd allows; 0: not at all. */
int64_t sd_notify_watchdog_interval_ms(void);
bool sd_notify_watchdog(void);

#endif
