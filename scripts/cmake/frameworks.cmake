# SPDX-License-Identifier: Apache-2.0
# For which frameworks is built, and where those are. SPILLWAY_TORCH and SPILLWAY_TENSORFLOW are ON,
# OFF, or AUTO: for what the interpreter has, and at least for one of them. Sets for each that is
# built for its folder and version: torch_folder, torch_version, tensorflow_folder,
# tensorflow_version.

# scikit-build-core names the interpreter that pip runs in; a plain configure says it by itself.
function(spillway_interpreter variable stated)
  if(SKBUILD AND stated STREQUAL "python3" AND Python_EXECUTABLE)
    set(stated "${Python_EXECUTABLE}")
  endif()
  set(${variable} "${stated}" PARENT_SCOPE)
endfunction()

# Sets NAME_folder and NAME_version to what `finder` prints, and `option` to ON or OFF.
# Frameworks are found, not imported: importing takes seconds and may start an accelerator's driver.
# The answer is not cached, so one that was replaced is seen at the next configure.
function(spillway_find_framework name option python finder)
  if(NOT ${option})
    return()
  endif()
  execute_process(COMMAND "${python}" "${finder}"
    OUTPUT_VARIABLE answer ERROR_VARIABLE trouble RESULT_VARIABLE status
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    list(GET answer 0 folder)
    list(GET answer 1 version)
    set(${name}_folder "${folder}" PARENT_SCOPE)
    set(${name}_version "${version}" PARENT_SCOPE)
    set(${option} ON PARENT_SCOPE)
  elseif(${option} STREQUAL "AUTO")
    set(${option} OFF PARENT_SCOPE)
  else()
    # Indented text is what message() does not wrap, so that a sentence stays one line.
    message(FATAL_ERROR "\n  No ${name} in ${python}: ${status} ${trouble}\n"
                        "  Name an interpreter that has it, or set ${option}=OFF.\n")
  endif()
endfunction()

# Ends the configuration where the version is none of `minors`, a list.
function(spillway_check_minor name option minor minors)
  if(NOT minor IN_LIST minors)
    list(JOIN minors ", " known)
    message(FATAL_ERROR "\n  ${name} ${${name}_version} in ${${name}_folder} is not supported: "
                        "Spillway has adapters for ${known}. ${option}=OFF leaves it out.\n")
  endif()
endfunction()

spillway_interpreter(torch_python "${SPILLWAY_PYTHON}")
spillway_interpreter(tensorflow_python "${SPILLWAY_TENSORFLOW_PYTHON}")
spillway_find_framework(torch SPILLWAY_TORCH "${torch_python}"
  "${PROJECT_SOURCE_DIR}/adapters/torch/cmake/find_torch.py")
spillway_find_framework(tensorflow SPILLWAY_TENSORFLOW "${tensorflow_python}"
  "${PROJECT_SOURCE_DIR}/adapters/tensorflow/cmake/find_tensorflow.py")
if(SKBUILD AND NOT SPILLWAY_TORCH AND NOT SPILLWAY_TENSORFLOW)
  message(FATAL_ERROR "\n  Spillway builds against the torch or tensorflow of your environment: "
                      "use pip install --no-build-isolation .\n")
endif()
