/* The keeper itself. */
#pragma once

/* Runs until end of file on `socket`, then kills all it has. Nothing else of the calling process is used any
 * more. */
_Noreturn void keeper_process(int socket);
