/* SPDX-License-Identifier: Apache-2.0 */
/* The list of models that are drained: who comes, goes, and stays. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ring/drained.h"

static struct drained d;
static char why[256];

static int add(const char *model)
{
	char name[WIRE_MODEL_NAME] = "";

	strcpy(name, model);
	return drained_add(&d, name, why, sizeof(why));
}

static int off(const char *model)
{
	char name[WIRE_MODEL_NAME] = "";

	strcpy(name, model);
	return drained_remove(&d, name, why, sizeof(why));
}

/* Of "a" to "e", exactly those that @models names. */
static void expect(const char *models)
{
	for (char model[] = "a"; model[0] <= 'e'; model[0]++) {
		bool there = strchr(models, model[0]) != NULL;

		cr_expect_eq(drained_has(&d, model), there, "%s, of \"%s\"", model, models);
		cr_expect_eq(drained_lists(&d, model), there, "%s, of \"%s\"", model, models);
	}
	cr_expect_eq(d.n, strlen(models));
}

Test(drained, whichever_goes_the_others_stay)
{
	static const char *const orders[] = { "abc", "acb", "bac", "bca", "cab", "cba" };

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		char left[] = "abc";

		cr_assert_eq(add("a") || add("b") || add("c"), 0);
		for (const char *o = orders[i]; *o; o++) {
			char model[] = { *o, '\0' }, *at = strchr(left, *o);

			cr_assert_eq(off(model), 0, "%s", why);
			memmove(at, at + 1, strlen(at));
			expect(left);
		}
	}
}

Test(drained, a_model_is_in_it_once)
{
	cr_assert_eq(add("a") || add("b") || add("a"), 0);
	expect("ab");
	cr_assert_eq(off("a"), 0);
	expect("b");
	cr_assert_eq(off("a"), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "not drained"), "%s", why);
	expect("b");
}

Test(drained, the_whole_broker_is_apart_from_its_models)
{
	cr_assert_eq(add("b") || add(""), 0);
	cr_expect(drained_has(&d, "a") && drained_has(&d, "b") && !drained_lists(&d, "a") && drained_lists(&d, "b"));
	cr_assert_eq(off("b"), SWAKV_EBUSY);
	cr_expect_not_null(strstr(why, "whole broker"), "%s", why);
	cr_expect(drained_lists(&d, "b"), "a refusal changes nothing");
	cr_assert_eq(off(""), 0);
	expect("");
}

Test(drained, the_list_ends_where_it_says)
{
	char model[16];

	for (int i = 0; i < ADMIN_MAX_DRAINED; i++) {
		snprintf(model, sizeof(model), "m%d", i);
		cr_assert_eq(add(model), 0, "%s: %s", model, why);
	}
	cr_assert_eq(add("a"), SWAKV_EBUSY);
	cr_expect_not(drained_has(&d, "a"));
	cr_assert_eq(add("m3"), 0, "it is there already");
	cr_assert_eq(off(model), 0);
	cr_assert_eq(add("a"), 0);
	for (int i = 0; i < ADMIN_MAX_DRAINED - 1; i++) {
		snprintf(model, sizeof(model), "m%d", i);
		cr_expect(drained_has(&d, model), "%s", model);
	}
}
