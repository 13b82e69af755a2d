/*
 * Devices of the driver of the tests, as its environment says.
 */
#include <stdio.h>
#include <string.h>

#include "fake-driver.h"

static int
init(unsigned flags)
{
	(void)flags;
	ENTER;
	return fake_number("FAKE_DEVICES", 1) == 0 ? 100 : 0;
}

static int
driver_version(int *out)
{
	*out = (int)fake_number("FAKE_VERSION", 13000);
	return 0;
}

static int
device_count(int *out)
{
	ENTER;
	*out = (int)fake_number("FAKE_DEVICES", 1);
	return 0;
}

static int
device_get(int *out, int ordinal)
{
	ENTER;
	*out = ordinal;
	return 0;
}

static int
device_name(char *out, int size, int dev)
{
	ENTER;
	snprintf(out, (size_t)size, "Fake %d", dev);
	return 0;
}

static int
device_uuid(void *out, int dev)
{
	ENTER;
	memset(out, 'a' + dev, 16);
	return 0;
}

/* CUDA programming guide, "Technical Specifications per Compute Capability". */
int
fake_most_smem(void)
{
	long arch = fake_number("FAKE_ARCH", 90);

	return (arch == 80 || arch == 87 ? 163
		: arch == 86 || arch == 89 || arch >= 120 ? 99 : 227) << 10;
}

static int
device_attribute(int *out, int what, int dev)
{
	long arch = fake_number("FAKE_ARCH", 90);

	(void)dev;
	ENTER;
	*out = what == 75 ? (int)arch / 10 : what == 76 ? (int)arch % 10
		: what == 97 ? fake_most_smem() : what == 16 ? 132
		: what == 38 ? 1 << 20 : 0;
	return 0;
}

/* As on an H100: lower numbers are more urgent. */
static int
priorities(int *least, int *greatest)
{
	ENTER;
	*least = 0;
	*greatest = -5;
	return 0;
}

const struct fake_name fake_device_names[] = {
	{ "cuCtxGetStreamPriorityRange", priorities },
	{ "cuInit", init }, { "cuDriverGetVersion", driver_version },
	{ "cuDeviceGetCount", device_count }, { "cuDeviceGet", device_get },
	{ "cuDeviceGetName", device_name },
	{ "cuDeviceGetUuid", device_uuid },
	{ "cuDeviceGetAttribute", device_attribute },
	{ NULL, NULL }
};
