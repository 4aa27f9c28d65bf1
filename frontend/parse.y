/* The grammar of .net: text to the tree of ast.h. It knows no op names and no shapes. The tokens
   come from layout.c: statements end in T_SEP, brackets balance, words are classified. */
%define api.pure full
%define api.prefix {net_}
%define api.token.prefix {T_}
%define api.location.type {Span}
%define parse.error custom
%locations
%expect 0
%parse-param {Parser *p}
%lex-param {Parser *p}

%code requires {
#include <string.h>

#include "frontend/syntax.h"
}

%code {
/* The stacks live in the frame of the parser and never grow: nothing to free, and text nested
   deeper is an error. */
#define YYINITDEPTH 3000
#define YYMAXDEPTH  3000

#define YYLLOC_DEFAULT(cur, rhs, n)                                                                \
    ((cur) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))                                   \
                 : (Span){YYRHSLOC(rhs, 0).source, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})

static int net_lex(NET_STYPE *value, Span *at, Parser *p);
static void net_error(const Span *at, Parser *p, const char *text);
#define A p->arena
}

%union {
    Token token;
    Expr *expr;
    Stmt *stmt;
    Block *block;
    TypeExpr *type;
    ScopeName *scope;
    Item item;
    Items *items;
    Param param;
    Params *params;
    Exprs *exprs;
    bool flag;
}

%token END 0 "the end of the file"
%token SEP "the end of the line" COMMENT NEWLINE
%token <token> NAME "a name" INT "an integer" FLOAT "a number" STRING "a string"
%token <token> TRUE "'true'" FALSE "'false'"
%token IF "'if'" ELSE "'else'" THEN "'then'" FOR "'for'" IN "'in'" AS "'as'" REUSE "'reuse'"
%token AND "'and'" OR "'or'" NOT "'not'" RETURN "'return'"
%token FN "'fn'" MODEL "'model'" TRAIN "'train'" USE "'use'" CONST "'const'" DIM "'dim'"
%token SETTING "'setting'" ENTRY "'entry'" CELL "'cell'" MODULE "'module'" PARAM "'param'"
%token STATE "'state'" SCRATCH "'scratch'" LOOP "'loop'" CARRY "'carry'" OVER "'over'" WHILE "'while'"
%token EMIT "'emit'" TAP "'tap'" ASSERT "'assert'" MINIMIZE "'minimize'" CLIP "'clip'"
%token WITH "'with'" EVALUATE "'evaluate'" RECOMPUTE "'recompute'" UPDATE "'update'" ACCUMULATE "'accumulate'" GRAD "'grad'" FROZEN "'frozen'"
%token EXTERN "'extern'" FROM "'from'" OUT "'out'" LAUNCH "'launch'" REFERENCE "'reference'" CPU "'cpu'"
%token CUDA "'cuda'"
%token GETS "'<-'" ARROW "'->'" ELLIPSIS "'...'" RANGE "'..'" EQ "'=='" NE "'!='" LE "'<='"
%token GE "'>='" FLOORDIV "'//'" POW "'**'" ATTRS "'@{'" END_ATTRS "'}'" REGION "'{'"

%precedence COND
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' '>' LE GE
%nonassoc RANGE
%left '+' '-'
%left '*' '/' '%' FLOORDIV
%precedence NEG
%right POW

%type <expr> constants expr held scoped postfix primary values opt_expr index_item attr_value over_set for_set
%type <exprs> targets value_list dims index_items
%type <items> slopes texts args arg_list attrs attr_list returned names carried overs over_list
%type <item> arg attr over
%type <param> fn_param
%type <params> fn_params fn_param_list
%type <type> type tensor_type opt_type
%type <scope> scope scope_path
%type <stmt> stmt declaration compound simple gradient
%type <block> block stmts
%type <token> title program
%type <flag> frozen

%%

file: %empty
    | stmts { VEC_TAKE(p->file->stmts, $1->stmts); }
    ;

stmts: stmt { $$ = NEW(A, Block); if ($1) vec_push(A, &$$->stmts, $1); }
     | stmts SEP stmt { $$ = $1; if ($3) vec_push(A, &$$->stmts, $3); }
     ;

stmt: declaration
    | compound
    | simple
    | recover { $$ = NULL; }
    ;

/* The report has moved the lexer to where the statement ends (or to its block). */
recover: error { yyerrok; yyclearin; if (p->dead) YYABORT; }
       ;

block: '{' '}' { $$ = NEW(A, Block); $$->span = @$; }
     | '{' stmts '}' { $$ = $2; $$->span = @$; }
     ;

/* -- declarations ------------------------------------------------------------------------ */

declaration: USE NAME { $$ = stmt_named(p, STMT_USE, @$, &$2); }
    | USE STRING { $$ = stmt_named(p, STMT_USE, @$, &$2); $$->flag = true; }
    | CONST NAME '=' scoped { $$ = stmt_named(p, STMT_CONST, @$, &$2); $$->expr = $4; }
    | DIM NAME { $$ = stmt_named(p, STMT_DIM, @$, &$2); }
    | DIM NAME '=' expr { $$ = stmt_named(p, STMT_DIM, @$, &$2); $$->expr = $4; }
    | SETTING NAME '=' expr { $$ = stmt_named(p, STMT_SETTING, @$, &$2); $$->expr = $4; }
    | FN NAME '(' fn_params ')' block gradient {
          $$ = $7;
          $$->span = @$;
          $$->name = $2.text;
          $$->name_span = @2;
          VEC_TAKE($$->params, $4->list);
          $$->body = $6;
      }
    | FN NAME '(' fn_params ')' '=' CUDA STRING REFERENCE expr slopes {
          $$ = stmt_named(p, STMT_FN, @$, &$2);
          VEC_TAKE($$->params, $4->list);
          $$->cuda = $8.text;
          $$->text_span = @8;
          $$->expr = $10;
          VEC_TAKE($$->items, $11->list);
      }
    | FN recover block { $$ = NULL; }
    | EXTERN FN NAME '(' fn_params ')' FROM STRING block gradient {
          $$ = $10;
          $$->span = @$;
          $$->name = $3.text;
          $$->name_span = @3;
          VEC_TAKE($$->params, $5->list);
          $$->body = $9;
          $$->text = $8.text;
          $$->text_span = @8;
      }
    | EXTERN recover block { $$ = NULL; }
    | MODEL NAME '(' fn_params ')' block {
          $$ = stmt_named(p, STMT_MODEL, @$, &$2);
          VEC_TAKE($$->params, $4->list);
          $$->body = $6;
      }
    | MODEL recover block { $$ = NULL; }
    | TRAIN NAME program block {
          $$ = stmt_named(p, STMT_TRAIN, @$, &$2);
          $$->program = $3.text ? $3.text : $2.text;
          $$->body = $4;
      }
    | TRAIN recover block { $$ = NULL; }
    | MODULE title ATTRS attrs END_ATTRS {
          $$ = stmt_named(p, STMT_MODULE, @$, &$2);
          VEC_TAKE($$->items, $4->list);
      }
    | CELL STRING ':' tensor_type ATTRS attrs END_ATTRS {
          $$ = stmt_named(p, STMT_CELL, @$, &$2);
          $$->type = $4;
          VEC_TAKE($$->items, $6->list);
      }
    | ENTRY title ATTRS attrs END_ATTRS block {
          $$ = stmt_named(p, STMT_ENTRY, @$, &$2);
          VEC_TAKE($$->items, $4->list);
          $$->body = $6;
      }
    | ENTRY recover block { $$ = NULL; }
    ;

gradient: %empty { $$ = stmt_new(p, STMT_FN, @$); }
        | GRAD '(' fn_params ')' block {
              $$ = stmt_new(p, STMT_FN, @$);
              VEC_TAKE($$->gparams, $3->list);
              $$->gbody = $5;
              $$->flag = true;
          }
        ;

slopes: %empty { $$ = NEW(A, Items); }
      | GRAD texts { $$ = $2; }
      ;

texts: STRING { $$ = NEW(A, Items); VEC_ONE(A, &$$->list, (Item){NULL, @1, expr_token(p, EXPR_STRING, &$1)}); }
     | texts ',' STRING { $$ = $1; vec_push(A, &$$->list, ((Item){NULL, @3, expr_token(p, EXPR_STRING, &$3)})); }
     ;

program: %empty { $$ = (Token){0}; }
       | AS NAME { $$ = $2; }
       ;

title: NAME
     | STRING
     ;

fn_params: %empty { $$ = NEW(A, Params); }
         | fn_param_list
         | fn_param_list ','
         ;

fn_param_list: fn_param { $$ = NEW(A, Params); VEC_ONE(A, &$$->list, $1); }
             | fn_param_list ',' fn_param { $$ = $1; vec_push(A, &$$->list, $3); }
             ;

fn_param: NAME opt_type { $$ = (Param){.name = $1.text, .span = @1, .type = $2}; }
        | NAME opt_type '=' expr {
              $$ = (Param){.name = $1.text, .span = @1, .type = $2, .otherwise = $4};
          }
        ;

opt_type: %empty { $$ = NULL; }
        | ':' type { $$ = $2; }
        ;

type: tensor_type
    | tensor_type IN expr { $$ = $1; $$->span = @$; type_range(p, $$, $3); }
    ;

tensor_type: NAME { $$ = NEW(A, TypeExpr); $$->span = @$; $$->dtype = $1.text; }
    | NAME '[' dims ']' {
          $$ = NEW(A, TypeExpr);
          $$->span = @$;
          $$->dtype = $1.text;
          $$->has_shape = true;
          VEC_TAKE($$->dims, $3->list);
      }
    ;

dims: %empty { $$ = NEW(A, Exprs); }
    | value_list
    | value_list ','
    ;

/* -- statements -------------------------------------------------------------------------- */

compound: FOR names IN values block {
          $$ = stmt_new(p, STMT_FOR, @$);
          VEC_TAKE($$->names, $2->list);
          $$->expr = $4;
          $$->body = $5;
      }
    | FOR recover block { $$ = NULL; }
    | IF expr block {
          $$ = stmt_new(p, STMT_IF, @$);
          $$->expr = $2;
          $$->body = $3;
      }
    | IF expr block ELSE block {
          $$ = stmt_new(p, STMT_IF, @$);
          $$->expr = $2;
          $$->body = $3;
          $$->orelse = $5;
      }
    | IF expr block ELSE compound {
          $$ = stmt_new(p, STMT_IF, @$);
          $$->expr = $2;
          $$->body = $3;
          $$->orelse = NEW(A, Block);
          $$->orelse->span = @5;
          if ($5) vec_push(A, &$$->orelse->stmts, $5);
          if ($5 && $5->kind != STMT_IF)
              diag_span(p->diags, @4, "expected '{' or 'if' after 'else'");
      }
    | IF recover block { $$ = NULL; }
    | LOOP NAME IN expr carried overs held block {
          $$ = stmt_named(p, STMT_LOOP, @$, &$2);
          $$->expr = $4;
          VEC_TAKE($$->names, $5->list);
          VEC_TAKE($$->items, $6->list);
          $$->cond = $7;
          $$->body = $8;
      }
    | LOOP recover block { $$ = NULL; }
    ;

carried: %empty { $$ = NEW(A, Items); }
       | CARRY names { $$ = $2; }
       ;

overs: %empty { $$ = NEW(A, Items); }
     | OVER over_list { $$ = $2; }
     ;

held: %empty { $$ = NULL; }
    | WHILE expr { $$ = $2; }
    ;

over_list: over { $$ = NEW(A, Items); VEC_ONE(A, &$$->list, $1); }
         | over_list ',' over { $$ = $1; vec_push(A, &$$->list, $3); }
         ;

over: NAME '=' expr { $$ = (Item){$1.text, @1, $3}; }
    | NAME { $$ = (Item){$1.text, @1, expr_token(p, EXPR_NAME, &$1)}; }
    ;

names: NAME { $$ = NEW(A, Items); VEC_ONE(A, &$$->list, (Item){$1.text, @1, NULL}); }
     | names ',' NAME { $$ = $1; vec_push(A, &$$->list, (Item){$3.text, @3, NULL}); }
     ;

simple: scoped { $$ = stmt_new(p, STMT_EXPR, @$); $$->expr = $1; }
    | targets '=' values {
          $$ = stmt_new(p, STMT_LET, @$);
          stmt_targets(p, $$, $1);
          $$->expr = $3;
      }
    | expr GETS scoped {
          $$ = stmt_new(p, STMT_UPDATE_CELL, @$);
          $$->target = $1;
          $$->expr = $3;
      }
    | RETURN returned {
          $$ = stmt_new(p, STMT_RETURN, @$);
          VEC_TAKE($$->items, $2->list);
      }
    | PARAM NAME ':' type '=' scoped frozen {
          $$ = stmt_named(p, STMT_PARAM, @$, &$2);
          $$->type = $4;
          $$->expr = $6;
          $$->flag = $7;
      }
    | STATE NAME ':' type '=' scoped {
          $$ = stmt_named(p, STMT_STATE, @$, &$2);
          $$->type = $4;
          $$->expr = $6;
      }
    | SCRATCH STATE NAME ':' type '=' scoped {
          $$ = stmt_named(p, STMT_STATE, @$, &$3);
          $$->type = $5;
          $$->expr = $7;
          $$->flag = true;
      }
    | EMIT NAME '=' scoped { $$ = stmt_named(p, STMT_EMIT, @$, &$2); $$->expr = $4; }
    | EMIT NAME {
          $$ = stmt_named(p, STMT_EMIT, @$, &$2);
          $$->expr = expr_token(p, EXPR_NAME, &$2);
      }
    | TAP expr { $$ = stmt_new(p, STMT_TAP, @$); $$->expr = $2; }
    | TAP expr AS scope { $$ = stmt_new(p, STMT_TAP, @$); $$->expr = $2; $$->scope = $4; }
    | ASSERT expr ',' STRING {
          $$ = stmt_new(p, STMT_ASSERT, @$);
          $$->expr = $2;
          $$->name = $4.text;
          $$->name_span = @4;
      }
    | MINIMIZE scoped over_set {
          $$ = stmt_new(p, STMT_MINIMIZE, @$);
          $$->expr = $2;
          $$->set = $3;
      }
    | CLIP scoped { $$ = stmt_new(p, STMT_CLIP, @$); $$->expr = $2; }
    | UPDATE scoped for_set {
          $$ = stmt_new(p, STMT_UPDATE, @$);
          $$->expr = $2;
          $$->set = $3;
      }
    | EVALUATE WITH expr { $$ = stmt_new(p, STMT_EVALUATE, @$); $$->expr = $3; }
    | RECOMPUTE expr { $$ = stmt_new(p, STMT_RECOMPUTE, @$); $$->expr = $2; }
    | OUT NAME ':' tensor_type { $$ = stmt_named(p, STMT_OUT, @$, &$2); $$->type = $4; }
    | LAUNCH NAME constants '(' args ')' attrs {
          $$ = stmt_named(p, STMT_LAUNCH, @$, &$2);
          $$->expr = $3;
          VEC_TAKE($$->names, $5->list);
          VEC_TAKE($$->items, $7->list);
      }
    | REFERENCE block { $$ = stmt_new(p, STMT_REFERENCE, @$); $$->body = $2; }
    | CPU STRING { $$ = stmt_new(p, STMT_CPU, @$); $$->text = $2.text; $$->text_span = @2; }
    | ACCUMULATE expr { $$ = stmt_new(p, STMT_ACCUMULATE, @$); $$->expr = $2; }
    ;

constants: %empty { $$ = NULL; }
         | '[' value_list ']' { $$ = expr_tuple(p, $2); }
         ;

returned: %empty { $$ = NEW(A, Items); }
        | arg_list
        ;

frozen: %empty { $$ = false; }
      | FROZEN { $$ = true; }
      ;

over_set: %empty { $$ = NULL; }
        | OVER expr { $$ = $2; }
        ;

for_set: %empty { $$ = NULL; }
       | FOR expr { $$ = $2; }
       ;

targets: expr { $$ = NEW(A, Exprs); VEC_ONE(A, &$$->list, $1); }
       | targets ',' expr { $$ = $1; vec_push(A, &$$->list, $3); }
       ;

/* -- expressions ------------------------------------------------------------------------- */

values: value_list { $$ = expr_tuple(p, $1); }
      ;

value_list: scoped { $$ = NEW(A, Exprs); VEC_ONE(A, &$$->list, $1); }
          | value_list ',' scoped { $$ = $1; vec_push(A, &$$->list, $3); }
          ;

scoped: expr
      | scoped AS scope { $$ = expr_scoped(p, EXPR_AS, $1, @2, $3); }
      | scoped REUSE scope { $$ = expr_scoped(p, EXPR_REUSE, $1, @2, $3); }
      | scoped WITH expr {
          $$ = expr_postfix(p, EXPR_WITH, $1, @3);
          $$->op_span = span_join(@2, @3);
          $$->b = $3;
          expr_holds(p, $$, $3);
      }
    ;

scope: scope_path { $$ = $1; $$->span = @$; }
     | STRING {
           $$ = NEW(A, ScopeName);
           $$->span = @$;
           vec_push(A, &$$->parts, (struct ScopePart){$1.text, NULL});
       }
     ;

scope_path: NAME {
                $$ = NEW(A, ScopeName);
                vec_push(A, &$$->parts, (struct ScopePart){$1.text, NULL});
            }
          | NAME '[' expr ']' {
                $$ = NEW(A, ScopeName);
                vec_push(A, &$$->parts, (struct ScopePart){$1.text, $3});
            }
          | scope_path '.' NAME {
                $$ = $1;
                vec_push(A, &$$->parts, (struct ScopePart){$3.text, NULL});
            }
          | scope_path '.' NAME '[' expr ']' {
                $$ = $1;
                vec_push(A, &$$->parts, (struct ScopePart){$3.text, $5});
            }
          ;

expr: postfix
    | '-' expr %prec NEG { $$ = expr_unary(p, UN_NEG, @1, $2); }
    | NOT expr { $$ = expr_unary(p, UN_NOT, @1, $2); }
    | expr '+' expr { $$ = expr_binary(p, BIN_ADD, @2, $1, $3); }
    | expr '-' expr { $$ = expr_binary(p, BIN_SUB, @2, $1, $3); }
    | expr '*' expr { $$ = expr_binary(p, BIN_MUL, @2, $1, $3); }
    | expr '/' expr { $$ = expr_binary(p, BIN_DIV, @2, $1, $3); }
    | expr FLOORDIV expr { $$ = expr_binary(p, BIN_FLOORDIV, @2, $1, $3); }
    | expr '%' expr { $$ = expr_binary(p, BIN_MOD, @2, $1, $3); }
    | expr POW expr { $$ = expr_binary(p, BIN_POW, @2, $1, $3); }
    | expr EQ expr { $$ = expr_binary(p, BIN_EQ, @2, $1, $3); }
    | expr NE expr { $$ = expr_binary(p, BIN_NE, @2, $1, $3); }
    | expr '<' expr { $$ = expr_binary(p, BIN_LT, @2, $1, $3); }
    | expr LE expr { $$ = expr_binary(p, BIN_LE, @2, $1, $3); }
    | expr '>' expr { $$ = expr_binary(p, BIN_GT, @2, $1, $3); }
    | expr GE expr { $$ = expr_binary(p, BIN_GE, @2, $1, $3); }
    | expr AND expr { $$ = expr_binary(p, BIN_AND, @2, $1, $3); }
    | expr OR expr { $$ = expr_binary(p, BIN_OR, @2, $1, $3); }
    | expr RANGE expr {
          $$ = expr_new(p, EXPR_RANGE, @$);
          $$->op_span = @2;
          $$->lo = $1;
          $$->hi = $3;
          expr_holds(p, $$, $1);
          expr_holds(p, $$, $3);
      }
    | IF expr THEN expr ELSE expr %prec COND {
          $$ = expr_new(p, EXPR_COND, @$);
          $$->op_span = @1;
          $$->a = $2;
          $$->b = $4;
          $$->c = $6;
          expr_holds(p, $$, $2);
          expr_holds(p, $$, $4);
          expr_holds(p, $$, $6);
      }
    ;

postfix: primary
    | postfix '(' args ')' {
          $$ = expr_postfix(p, EXPR_CALL, $1, @4);
          $$->op_span = $1->span;
          VEC_TAKE($$->items, $3->list);
          for (uint32_t k = 0; k < $$->items.n; k++) expr_holds(p, $$, $$->items.at[k].value);
      }
    | postfix '[' index_items ']' {
          $$ = expr_postfix(p, EXPR_INDEX, $1, @4);
          $$->op_span = span_join(@2, @4);
          for (uint32_t k = 0; k < $3->list.n; k++) {
              vec_push(A, &$$->items, (Item){.value = $3->list.at[k]});
              expr_holds(p, $$, $3->list.at[k]);
          }
      }
    | postfix '.' NAME {
          $$ = expr_postfix(p, EXPR_MEMBER, $1, @3);
          $$->op_span = @3;
          $$->text = $3.text;
      }
    | postfix ATTRS attrs END_ATTRS { $$ = $1; attach_attrs(p, $$, $3, @4); }
    | postfix REGION '(' fn_params ')' ARROW '}' {
          Block *b = NEW(A, Block);
          b->span = span_join(@2, @7);
          VEC_TAKE(b->params, $4->list);
          $$ = $1;
          attach_region(p, $$, b);
      }
    | postfix REGION '(' fn_params ')' ARROW stmts '}' {
          $7->span = span_join(@2, @8);
          VEC_TAKE($7->params, $4->list);
          $$ = $1;
          attach_region(p, $$, $7);
      }
    ;

primary: NAME { $$ = expr_token(p, EXPR_NAME, &$1); }
    | INT { $$ = expr_token(p, EXPR_INT, &$1); }
    | FLOAT { $$ = expr_token(p, EXPR_FLOAT, &$1); }
    | STRING { $$ = expr_token(p, EXPR_STRING, &$1); }
    | TRUE { $$ = expr_token(p, EXPR_BOOL, &$1); $$->i = 1; }
    | FALSE { $$ = expr_token(p, EXPR_BOOL, &$1); }
    | '(' scoped ')' { $$ = $2; $$->span = @$; }
    | '[' ']' { $$ = expr_new(p, EXPR_LIST, @$); $$->op_span = @$; }
    | '[' value_list opt_comma ']' {
          $$ = expr_new(p, EXPR_LIST, @$);
          $$->op_span = @$;
          for (uint32_t k = 0; k < $2->list.n; k++) {
              vec_push(A, &$$->items, (Item){.value = $2->list.at[k]});
              expr_holds(p, $$, $2->list.at[k]);
          }
      }
    ;

opt_comma: %empty
         | ','
         ;

args: %empty { $$ = NEW(A, Items); }
    | arg_list
    | arg_list ','
    ;

arg_list: arg { $$ = NEW(A, Items); VEC_ONE(A, &$$->list, $1); }
        | arg_list ',' arg { $$ = $1; vec_push(A, &$$->list, $3); }
        ;

arg: scoped { $$ = (Item){.value = $1}; }
   | NAME '=' scoped { $$ = (Item){$1.text, @1, $3}; }
   ;

attrs: %empty { $$ = NEW(A, Items); }
     | attr_list
     | attr_list ','
     ;

attr_list: attr { $$ = NEW(A, Items); VEC_ONE(A, &$$->list, $1); }
         | attr_list ',' attr { $$ = $1; vec_push(A, &$$->list, $3); }
         ;

attr: NAME '=' attr_value { $$ = (Item){$1.text, @1, $3}; }
    ;

attr_value: expr
          ;

index_items: index_item { $$ = NEW(A, Exprs); VEC_ONE(A, &$$->list, $1); }
           | index_items ',' index_item { $$ = $1; vec_push(A, &$$->list, $3); }
           ;

index_item: expr
    | ELLIPSIS { $$ = expr_new(p, EXPR_ELLIPSIS, @$); }
    | opt_expr ':' opt_expr {
          $$ = expr_new(p, EXPR_SLICE, @$);
          $$->op_span = @2;
          $$->lo = $1;
          $$->hi = $3;
          expr_holds(p, $$, $1);
          expr_holds(p, $$, $3);
      }
    | opt_expr ':' opt_expr ':' opt_expr {
          $$ = expr_new(p, EXPR_SLICE, @$);
          $$->op_span = @2;
          $$->lo = $1;
          $$->hi = $3;
          $$->step = $5;
          expr_holds(p, $$, $1);
          expr_holds(p, $$, $3);
          expr_holds(p, $$, $5);
      }
    ;

opt_expr: %empty { $$ = NULL; }
        | expr
        ;

%%

static int net_lex(NET_STYPE *value, Span *at, Parser *p)
{
    const Token *t = &p->tokens->list.at[p->at];
    if (p->inject) {
        *at = (Span){t->span.source, t->span.begin, t->span.begin};
        return p->inject-- == 2 ? '{' : '}';
    }
    if (t->kind != T_END) p->at++;
    value->token = *t;
    *at = t->span;
    return t->kind;
}

static void net_error(const Span *at, Parser *p, const char *text)
{
    (void)text; // only "memory exhausted" comes here
    diag_span(p->diags, *at,
              "this is nested too deeply: give parts of it names of their own");
    p->dead = true;
}

// What goes on from a complete operand. Messages call all of these "an operator".
static bool is_operator(yysymbol_kind_t k)
{
    static const char *const texts[] = {
        "'+'", "'-'", "'*'", "'/'", "'//'", "'%'", "'**'", "'=='", "'!='", "'<'", "'<='", "'>'",
        "'>='", "'and'", "'or'", "'..'", "'('", "'['", "'.'", "'@{'", "'as'", "'reuse'",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(yysymbol_name(k), texts[i])) return true;
    return k == YYSYMBOL_REGION;
}

static Expected expected_tokens(const yypcontext_t *ctx)
{
    yysymbol_kind_t kinds[YYNTOKENS];
    int n = yypcontext_expected_tokens(ctx, kinds, YYNTOKENS);
    Expected e = {0};
    for (int k = 0; k < n; k++) {
        const char *words = yysymbol_name(kinds[k]);
        switch (kinds[k]) {
        case YYSYMBOL_NAME: e.name = true; break;
        case YYSYMBOL_INT: e.integer = true; break;
        case YYSYMBOL_RETURN: e.statement = true; break;
        case YYSYMBOL_POW: e.operator = true; break;
        // The file may end here, so the line may.
        case YYSYMBOL_YYEOF: words = yysymbol_name(YYSYMBOL_SEP); break;
        default: break;
        }
        bool seen = is_operator(kinds[k]);
        for (int j = 0; j < e.n; j++) seen |= !strcmp(e.list[j], words);
        if (!seen && e.n < (int)(sizeof e.list / sizeof *e.list)) e.list[e.n++] = words;
    }
    return e;
}

static int yyreport_syntax_error(const yypcontext_t *ctx, Parser *p)
{
    Expected e = expected_tokens(ctx);
    syntax_error(p, yypcontext_token(ctx) == YYSYMBOL_YYEOF, &e);
    return 0;
}

File *parse_source(Arena *a, Diags *d, uint32_t source)
{
    Parser p = {.arena = a, .diags = d, .source = source, .file = NEW(a, File)};
    p.file->source = source;
    p.first_diag = d->list.n;
    uint32_t errors = d->errors;
    Tokens raw, tokens;
    scan_source(a, d, source, &raw);
    layout_tokens(a, d, &raw, &tokens);
    p.tokens = &tokens;
    if (!tokens.fatal) net_parse(&p);
    if (d->errors == errors) check_places(&p, p.file);
    sort_syntax_errors(&p);
    return p.file;
}
