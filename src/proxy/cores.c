/* How many cores this process may use: its affinity, and the quota of its cgroup. */
#include "wakegate/proxy.h"

#include <sched.h>
#include <stdio.h>

/* cgroup v2 "cpu.max" is "QUOTA PERIOD" or "max PERIOD"; v1 has two files. 0: no quota found. */
static unsigned cgroup_cores(void)
{
    long long quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) !=
            2) /* NOLINT(cert-err34-c): "max" simply does not scan */
            quota = 0;
        fclose(file);
    } else {
        static const char *const names[] = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                            "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
        long long *const values[] = {&quota, &period};
        for (int i = 0; i < 2; i++) {
            file = fopen(names[i], "re");
            if (!file || fscanf(file, "%lld", values[i]) != 1) /* NOLINT(cert-err34-c) */
                quota = 0;
            if (file)
                fclose(file);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    return (unsigned)((quota + period - 1) / period);
}

unsigned wg_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    unsigned cores = 1;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (unsigned)WG_MAX(CPU_COUNT(&set), 1);
    const unsigned quota = cgroup_cores();
    return quota > 0 ? WG_MIN(cores, quota) : cores;
}
