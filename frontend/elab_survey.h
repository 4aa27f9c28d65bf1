// Internal to the frontend: how a survey is recorded.
#ifndef FRONTEND_ELAB_SURVEY_H
#define FRONTEND_ELAB_SURVEY_H

#include "frontend/elab.h"
#include "frontend/survey.h"

// Records that the source at the span has the value v. Does nothing if no survey is recorded.
void survey_value(Elab *e, Span span, const Val *v);

void survey_names(Elab *e, Survey *s);                      // survey_names.c
uint32_t survey_decl_of(const Survey *s, const Stmt *stmt); // 1 + its declaration; 0: none
const char *survey_text(const Survey *s, Span span);        // the source text, on one line
const char *survey_head(const Survey *s, const Stmt *stmt);
const char *survey_doc(const Survey *s, Span span);

#endif
