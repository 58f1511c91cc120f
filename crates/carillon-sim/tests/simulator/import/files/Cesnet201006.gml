graph [
  node [
    id 0
    label "Hradec Kralove"
    Longitude 15.83
    Latitude 50.21
  ]
  node [
    id 1
    label "Ceska Trebova"
    Longitude 16.44
    Latitude 49.9
  ]
  node [
    id 2
    label "Jindrichuv Hradec"
    Longitude 15.0
    Latitude 49.14
  ]
  node [
    id 3
    label "Pardubice"
    Longitude 15.78
    Latitude 50.04
  ]
  node [
    id 4
    label "Vyskov"
    Longitude 17.0
    Latitude 49.28
  ]
  node [
    id 5
    label "Zlin"
    Longitude 17.67
    Latitude 49.22
  ]
  node [
    id 6
    label "Olomouc"
    Longitude 17.25
    Latitude 49.6
  ]
  node [
    id 7
    label "Brno"
    Longitude 16.61
    Latitude 49.2
  ]
  node [
    id 8
    label "Breclav,Lednice"
    Longitude 16.88
    Latitude 48.76
  ]
  node [
    id 9
    label "Ostrava"
    Longitude 18.28
    Latitude 49.83
  ]
  node [
    id 10
    label "Turnov"
    Longitude 15.15
    Latitude 50.58
  ]
  node [
    id 11
    label "Letohrad"
    Longitude 16.5
    Latitude 50.04
  ]
  node [
    id 12
    label "Beroun"
    Longitude 14.07
    Latitude 49.96
  ]
  node [
    id 13
    label "Marlanske Lazne"
    Longitude 12.7
    Latitude 49.96
  ]
  node [
    id 14
    label "Most"
    Longitude 13.64
    Latitude 50.5
  ]
  node [
    id 15
    label "Dvur Kralove"
    Longitude 15.81
    Latitude 50.43
  ]
  node [
    id 16
    label "Krnov"
    Longitude 17.7
    Latitude 50.09
  ]
  node [
    id 17
    label "Kyjov"
    Longitude 17.12
    Latitude 49.01
  ]
  node [
    id 18
    label "Jihlava"
    Longitude 15.59
    Latitude 49.4
  ]
  node [
    id 19
    label "Ondrejov"
    Longitude 14.09
    Latitude 48.87
  ]
  node [
    id 20
    label "Humpolec"
    Longitude 15.36
    Latitude 49.54
  ]
  node [
    id 21
    label "Jablonec n N"
    Longitude 15.17
    Latitude 50.72
  ]
  node [
    id 22
    label "Litomysl"
    Longitude 16.31
    Latitude 49.87
  ]
  node [
    id 23
    label "Uherske Hradiste"
    Longitude 17.46
    Latitude 49.07
  ]
  node [
    id 24
    label "Prostejov"
    Longitude 17.11
    Latitude 49.47
  ]
  node [
    id 25
    label "Vodnany"
    Longitude 14.18
    Latitude 49.15
  ]
  node [
    id 26
    label "Znojmo"
    Longitude 16.05
    Latitude 48.86
  ]
  node [
    id 27
    label "Nove Hrady"
    Longitude 14.78
    Latitude 48.79
  ]
  node [
    id 28
    label "Telc"
    Longitude 15.45
    Latitude 49.18
  ]
  node [
    id 29
    label "Kostelec n C.L"
    Longitude 14.86
    Latitude 49.99
  ]
  node [
    id 30
    label "Trebon"
    Longitude 14.77
    Latitude 49.0
  ]
  node [
    id 31
    label "Opava"
    Longitude 17.9
    Latitude 49.94
  ]
  node [
    id 32
    label "Karvina"
    Longitude 18.49
    Latitude 49.84
  ]
  node [
    id 33
    label "Kutna Hora"
    Longitude 15.27
    Latitude 49.95
  ]
  node [
    id 34
    label "Rez"
    Longitude 14.36
    Latitude 50.18
  ]
  node [
    id 35
    label "Tabor"
    Longitude 14.66
    Latitude 49.41
  ]
  node [
    id 36
    label "Pisek"
    Longitude 14.15
    Latitude 49.31
  ]
  node [
    id 37
    label "Cheb"
    Longitude 12.37
    Latitude 50.08
  ]
  node [
    id 38
    label "Plzen"
    Longitude 13.38
    Latitude 49.75
  ]
  node [
    id 39
    label "Decin"
    Longitude 14.21
    Latitude 50.78
  ]
  node [
    id 40
    label "Usti nad Labem"
    Longitude 14.03
    Latitude 50.66
  ]
  node [
    id 41
    label "Praha"
    Longitude 14.42
    Latitude 50.09
  ]
  node [
    id 42
    label "Liberec"
    Longitude 15.06
    Latitude 50.77
  ]
  node [
    id 43
    label "Podebrady"
    Longitude 15.12
    Latitude 50.14
  ]
  node [
    id 44
    label "Ceske Budejovice"
    Longitude 14.47
    Latitude 48.97
  ]
  edge [
    source 0
    target 41
  ]
  edge [
    source 0
    target 15
  ]
  edge [
    source 0
    target 3
  ]
  edge [
    source 0
    target 11
  ]
  edge [
    source 0
    target 42
  ]
  edge [
    source 1
    target 11
  ]
  edge [
    source 2
    target 44
  ]
  edge [
    source 2
    target 18
  ]
  edge [
    source 3
    target 22
  ]
  edge [
    source 3
    target 33
  ]
  edge [
    source 3
    target 41
  ]
  edge [
    source 4
    target 7
  ]
  edge [
    source 5
    target 23
  ]
  edge [
    source 5
    target 6
  ]
  edge [
    source 5
    target 7
  ]
  edge [
    source 6
    target 9
  ]
  edge [
    source 6
    target 11
  ]
  edge [
    source 6
    target 7
  ]
  edge [
    source 7
    target 28
  ]
  edge [
    source 7
    target 8
  ]
  edge [
    source 7
    target 9
  ]
  edge [
    source 7
    target 41
  ]
  edge [
    source 7
    target 17
  ]
  edge [
    source 7
    target 18
  ]
  edge [
    source 7
    target 20
  ]
  edge [
    source 7
    target 24
  ]
  edge [
    source 9
    target 31
  ]
  edge [
    source 9
    target 32
  ]
  edge [
    source 10
    target 42
  ]
  edge [
    source 11
    target 31
  ]
  edge [
    source 12
    target 41
  ]
  edge [
    source 13
    target 41
  ]
  edge [
    source 13
    target 37
  ]
  edge [
    source 13
    target 38
  ]
  edge [
    source 14
    target 37
  ]
  edge [
    source 14
    target 39
  ]
  edge [
    source 14
    target 40
  ]
  edge [
    source 16
    target 31
  ]
  edge [
    source 18
    target 26
  ]
  edge [
    source 19
    target 41
  ]
  edge [
    source 21
    target 42
  ]
  edge [
    source 25
    target 44
  ]
  edge [
    source 27
    target 44
  ]
  edge [
    source 29
    target 41
  ]
  edge [
    source 30
    target 44
  ]
  edge [
    source 34
    target 41
  ]
  edge [
    source 35
    target 41
  ]
  edge [
    source 36
    target 41
  ]
  edge [
    source 38
    target 41
  ]
  edge [
    source 38
    target 44
  ]
  edge [
    source 39
    target 40
  ]
  edge [
    source 40
    target 41
  ]
  edge [
    source 40
    target 42
  ]
  edge [
    source 41
    target 42
  ]
  edge [
    source 41
    target 43
  ]
  edge [
    source 41
    target 44
  ]
]
