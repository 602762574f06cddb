# Writes the manual pages and shell completions of the command, which prints them itself.
#
#   cmake -DCOMMAND=build/bin/cenote -DOUTPUT=directory -P CenoteCommandFiles.cmake
function(write_output file)
  execute_process(COMMAND ${COMMAND} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${OUTPUT}/${file} "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
write_output(completion/cenote completion bash)
write_output(completion/_cenote completion zsh)
write_output(completion/cenote.fish completion fish)
write_output(man1/cenote.1 manual)
string(REPLACE "\\-" "-" text "${text}")
string(REGEX MATCHALL "\ncenote-[a-z]+|BR cenote-[a-z]+" pages "${text}")
list(TRANSFORM pages REPLACE ".*cenote-" "")
list(REMOVE_DUPLICATES pages)
foreach(page IN LISTS pages)
  write_output(man1/cenote-${page}.1 manual ${page})
endforeach()
