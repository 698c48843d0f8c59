#!/usr/bin/env node
"use strict";
/* `weir-server` is `weir serve`; a command before all options is run instead. */
const words = process.argv.slice(2);
const isCommand = words.length > 0 && (!words[0].startsWith("-") || words[0] === "--version");
require("../index.js").run(isCommand ? words : ["serve", ...words]);
