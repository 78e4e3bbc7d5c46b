# cmake -DIN=file -DOUT=file.c -DNAME=symbol -DHEADER=decl.h -P embed.cmake: a file as a NUL-terminated C array.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){16})" "\\1\n    " bytes "${bytes}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n    ${bytes}0x00};\n")
