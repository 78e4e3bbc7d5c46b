/* replay_main.c - runs a fuzz target over every file of the corpus folders given, without
 * libFuzzer. An empty or missing corpus is a failure: a gate that saw nothing must not pass. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;

    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        exit(2);
    }
    if (!S_ISREG(st.st_mode)) {
        fclose(f);
        return 0;
    }
    /* an exact-size heap copy lets the address sanitizer see one byte too far */
    uint8_t *data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
    size_t n = data != NULL ? fread(data, 1, (size_t)st.st_size, f) : 0;

    fclose(f);
    if (data == NULL || n != (size_t)st.st_size) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(2);
    }
    uint8_t *exact = realloc(data, n > 0 ? n : 1);

    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    int count = 0;

    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        struct dirent *ent;
        char path[4096];

        if (d == NULL) {
            perror(argv[i]);
            return 2;
        }
        while ((ent = readdir(d)) != NULL) {
            snprintf(path, sizeof(path), "%s/%s", argv[i], ent->d_name);
            count += replay_file(path);
        }
        closedir(d);
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
