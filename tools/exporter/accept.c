/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.c - which of the two texts for collectors a client wants
 *
 * A header lists ranges of media types, each with parameters: "a/b;version=1.0.0;q=0.5, *" and so on. Of those that
 * name one of the two texts, the one that counts most is taken; OpenMetrics only when it is asked for by its name,
 * in a version that we write.
 */
#include "accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The next piece of *@text up to one of @ends, without blanks around it; its length goes to *@n. False: there is none.
 */
static bool piece(const char **text, char end, const char *stop, const char **from, size_t *n)
{
	const char *begin = *text, *last;

	if (begin >= stop)
		return false;
	last = memchr(begin, end, (size_t)(stop - begin));
	last = last ? last : stop;
	*text = last + 1;
	while (begin < last && (*begin == ' ' || *begin == '\t'))
		begin++;
	while (last > begin && (last[-1] == ' ' || last[-1] == '\t'))
		last--;
	*from = begin;
	*n = (size_t)(last - begin);
	return true;
}

static bool is(const char *from, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(from, word, n) == 0;
}

static bool begins(const char *from, size_t n, const char *word)
{
	return n >= strlen(word) && strncasecmp(from, word, strlen(word)) == 0;
}

/* The weight in "q=0.5", 0 when it is none. */
static double weight(const char *from, size_t n)
{
	char number[8] = "";
	double q;

	if (n - 2 >= sizeof(number))
		return 0;
	memcpy(number, from + 2, n - 2);
	if (strspn(number, "0123456789.") != n - 2)
		return 0;
	q = strtod(number, NULL);
	return q <= 1 ? q : 0;
}

/* One range from @from to @stop: what it asks for is written to *@open or *@text, if it is one of them. */
static void read_range(const char *from, const char *stop, double *open, double *text)
{
	const char *part, *type;
	size_t n, type_n;
	bool ours = true;
	double q = 1;

	if (!piece(&from, ';', stop, &type, &type_n))
		return;
	while (piece(&from, ';', stop, &part, &n)) {
		if (begins(part, n, "q="))
			q = weight(part, n);
		else if (begins(part, n, "version="))
			ours = is(part, n, "version=1.0.0") || is(part, n, "version=\"1.0.0\"");
	}
	if (is(type, type_n, "application/openmetrics-text") && ours && q > *open)
		*open = q;
	if ((is(type, type_n, "text/plain") || is(type, type_n, "text/*")) && q > *text)
		*text = q;
}

bool accept_openmetrics(const char *header)
{
	double open = 0, text = 0;
	const char *stop, *range;
	size_t n;

	if (!header)
		return false;
	stop = header + strlen(header);
	while (piece(&header, ',', stop, &range, &n))
		read_range(range, range + n, &open, &text);
	return open > 0 && open >= text;
}
