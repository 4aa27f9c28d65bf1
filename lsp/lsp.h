// Shared by the files of netc lsp. The server is one process with one thread: it reads messages,
// keeps the texts of open documents, and starts a separate process for every analysis, which it
// ends when the text changes. So nothing that an analysis does to its memory outlives it.
#ifndef LSP_LSP_H
#define LSP_LSP_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/json.h"
#include "base/map.h"
#include "include/netc.h"

enum { // of the protocol
    LSP_PARSE_ERROR = -32700,
    LSP_INVALID_REQUEST = -32600,
    LSP_NO_METHOD = -32601,
    LSP_INVALID_PARAMS = -32602,
    LSP_NOT_INITIALIZED = -32002,
    LSP_FAILED = -32803,
    LSP_CANCELLED = -32800,
};
enum { LSP_LARGEST_MESSAGE = 64 << 20, LSP_LARGEST_TEXT = 4 << 20 };

// -- wire.c: messages preceded by their lengths ---------------------------------------------------
typedef struct Wire {
    int in, out;
    char *data;            // bytes read and not consumed yet
    size_t len, cap, skip; // skip: remaining bytes of a message that is too large
    bool ended, broken;    // ended: end of input; broken: output is not read any more
} Wire;
typedef enum WireEvent { WIRE_NONE, WIRE_MESSAGE, WIRE_BAD } WireEvent;
bool wire_read(Wire *w); // reads what is available; false: the end
// Takes the next complete message, with its text in the arena, or reports what is wrong with it.
WireEvent wire_take(Wire *w, Arena *a, char **text, size_t *len, const char **wrong);
void wire_send(Wire *w, const Buf *body);

// -- text.c: positions ----------------------------------------------------------------------------
typedef struct Text {
    const char *at;
    size_t len;
    const uint32_t *line; // beginning of each line
    uint32_t nlines;
} Text;
typedef struct Position {
    uint32_t line, character;
} Position;
Text text_of(Arena *a, const char *at, size_t len);
size_t text_offset(const Text *t, Position p, bool utf8); // the nearest valid offset
Position text_position(const Text *t, size_t offset, bool utf8);

// -- uri.c ----------------------------------------------------------------------------------------
// The path of a file: URI; a made-up path for other URIs. NULL: not a valid name.
char *uri_path(const char *uri); // malloc'ed
const char *uri_of(Arena *a, const char *path);

// -- survey.c: the results of netc_survey ---------------------------------------------------------
typedef struct Decl {
    const char *kind, *name, *head, *doc;
    uint32_t source, begin, end, from, to, owner;
} Decl;
typedef struct Use {
    uint32_t source, begin, end, decl, flags;
} Use;
enum { USE_WRITE = 1, USE_ARGUMENT = 2, USE_OUTPUT = 4 };
typedef struct Value {
    uint32_t begin, end;
    const char *text;
    bool tensor;
} Value;
typedef struct Tok {
    int kind; // a character; 'a' a name, 'k' a keyword, '0' a number, '"' a string, '#' a comment
    uint32_t begin, end;
} Tok;
typedef struct Builtin {
    const char *name, *params; // "x axis? keep?", or NULL
} Builtin;
typedef struct SourceFile {
    const char *path, *name; // name: as in NAME.linear
    bool library;
    const JsonValue *uses;
} SourceFile;
typedef struct Survey {
    uint32_t source, core;
    VEC(SourceFile) sources;
    VEC(Decl) decls;
    VEC(Use) uses;
    VEC(Value) values;
    VEC(Tok) tokens;
    VEC(Builtin) builtins;
    const JsonValue *json; // the other members
} Survey;
Survey *survey_read(Arena *a, const char *json, size_t len); // NULL: invalid
// The use whose name contains the byte or ends at it.
const Use *survey_use(const Survey *v, uint32_t at);
const Value *survey_value(const Survey *v, uint32_t begin, uint32_t end);
const Value *survey_innermost(const Survey *v, uint32_t at);
bool survey_elaborated(const Survey *v); // without errors; NULL: false
bool survey_has_model(const Survey *v);  // of the file itself; NULL: false
bool survey_file_sees(const Survey *v, uint32_t from, uint32_t source); // whether file [from] uses
                                                                        // [source] directly
bool survey_sees(const Survey *v, uint32_t source); // whether the main file uses it
// The function [name] at the top level of a visible file.
const Decl *survey_function(const Survey *v, const char *name);
const Builtin *survey_builtin(const Survey *v, const char *name);

// -- analysis.c: processes that analyse -----------------------------------------------------------
typedef struct Job {
    pid_t pid; // 0: not running
    int fd;
    char *data;
    size_t len, cap;
} Job;

// -- documents.c ----------------------------------------------------------------------------------
typedef struct Document {
    struct Document *next;
    char *uri, *path, *text;
    size_t len;
    int64_t version;
    Arena *lines_arena;
    Text lines;        // of text
    bool stale;        // the survey is of an older text, or missing
    bool library;      // one of the standard library's files, written to disk
    Job job;           // the process that makes a survey
    Arena *arena;      // of the survey
    Survey *survey;    // the latest one; NULL: none
    char *survey_text; // the text that it describes
    size_t survey_len;
    const char *fault; // why there is no survey, or NULL
    Job kernels_job;
    bool saved;         // saved, and not compiled since then
    bool kernels_stale; // or not requested yet
    Arena *kernels_arena;
    const JsonValue *kernels; // the latest ones; NULL: none
} Document;

// -- the server -----------------------------------------------------------------------------------
typedef struct Message {
    Arena *arena;
    struct Message *next; // next of the waiting messages
    const char *method;
    const JsonValue *id, *params; // id NULL: a notification
    double since;                 // when it began to wait for kernels; 0: it is not waiting
    int error;                    // error code of the answer, with its text
    const char *wrong;
} Message;
typedef enum Answer { ANSWER_DONE, ANSWER_ERROR, ANSWER_WAIT } Answer;

typedef struct Server {
    Wire wire;
    bool initialized, stopping, ended;
    bool utf8; // positions count bytes instead of UTF-16 units
    bool snippets, markdown;
    bool watches;         // the client can report changes of files on disk
    const char **defines; // for the analysis, from the client's options
    int ndefines;
    char *target, *precision;
    Arena *options; // holds the defines
    Document *documents;
    Message *waiting; // in order of arrival
} Server;

// documents.c
// A regular file for reading, or NULL: others, such as a pipe without a writer, would never answer.
FILE *file_open(const char *path);
Document *document_open(Server *s, const char *uri, const char *text, int64_t version);
Document *document_find(const Server *s, const char *uri);
Document *document_of_path(const Server *s, const char *path);
void document_set(Server *s, Document *d, const char *text, size_t len); // malloc'ed copy
bool document_change(Server *s, Document *d, const JsonValue *change);   // false: the change is
                                                                         // invalid
void document_close(Server *s, Document *d);
void documents_reread(Server *s); // files on disk have changed
void document_analysed(Document *d);
// The document given in the parameters; NULL: it is not open, which was reported.
Document *document_asked(Server *s, Message *m);
// The byte at the position given in the parameters; false: there is none.
bool position_asked(Server *s, Message *m, const Document *d, const char *key, size_t *at);
// The text of a file that a survey refers to, and its URI. false: it cannot be read.
bool source_text(Server *s, Arena *a, const Document *d, uint32_t source, Text *text,
                 const char **uri);

// analysis.c
void analysis_begin(Server *s, Document *d);
void kernels_begin(Server *s, Document *d);
void job_end(Job *j);               // kills it
bool job_read(Job *j, int *status); // true: it has ended, and [data] is its complete output

// dispatch.c
void server_message(Server *s, Message *m, char *text, size_t len);
void server_retry(Server *s); // handles the waiting requests
void server_bad(Server *s, Arena *a, const char *wrong);
Answer answer_error(Message *m, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
typedef Answer Handler(Server *s, Message *m, Json *j);
// Notifications to the client.
void notify_begin(Json *j, Buf *out, const char *method); // to be followed by its params
void notify_end(Server *s, Json *j);
void server_log(Server *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void put_range(Json *j, const char *key, const Text *t, size_t begin, size_t end, bool utf8);
bool put_location(Server *s, Message *m, const Document *d, Json *j, uint32_t source,
                  uint32_t begin, uint32_t end);
const char *json_text(const JsonValue *object, const char *key); // NULL: not a string
int64_t json_number(const JsonValue *object, const char *key, int64_t otherwise);

// The handlers in each file.
void diagnostics_publish(Server *s, Document *d);
void diagnostics_clear(Server *s, const Document *d);
Handler answer_code_action, answer_hover, answer_inlay, answer_definition, answer_references,
    answer_highlight, answer_symbols, answer_prepare_rename, answer_rename, answer_completion,
    answer_signature, answer_format;
// standard.c: the URI of a file of the standard library, written to disk so that editors can open
// it.
const char *standard_uri(Arena *a, const char *path);
bool standard_is(const char *path);

#endif
